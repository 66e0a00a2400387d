"""Nothing is written that is off, and no sample takes away what the cluster has."""

from collections.abc import Callable
from itertools import islice

import msgspec
import pytest

from schemas.app_declared import AppDeclared
from schemas.fields import Event
from schemas.override_issued import OverrideIssued
from schemas.scale_applied import ScaleApplied
from services.actuator.settings import Modes
from services.devcluster.memory import MemorySystem
from services.simcluster.cluster import Observed
from tests.decision_helpers import match_of

APPS, SEED, TICKS = 40, 3, 24
FORGED_AT = range(12, 24, 3)
DOMAIN = "payments"


def changed_underneath(app: AppDeclared, tick: int) -> list[Event]:
    """Every kind of change that could move an app's replicas, a different one each tick."""
    most = app.max_replicas or 1
    kinds: list[Event] = [
        msgspec.structs.replace(app, max_replicas=app.min_replicas),
        msgspec.structs.replace(app, min_replicas=most),
        msgspec.structs.replace(app, max_replicas=None),
        msgspec.structs.replace(app, tier=0, saturation=app.saturation / 4),
        OverrideIssued(scope=app.app, kind="app", replicas=app.min_replicas),
        OverrideIssued(scope=app.app, kind="app", replicas=most),
        app,
    ]
    return [kinds[tick % len(kinds)]]


STOPS: dict[str, tuple[Modes, list[Event]]] = {
    "off": (Modes("off"), []),
    "preview": (Modes("preview"), []),
    "paused": (Modes(), [OverrideIssued(scope="cluster", kind="cluster", pause="all")]),
}


@pytest.mark.parametrize("stop", STOPS)
def test_nothing_is_written_whatever_changes_underneath(stop: str) -> None:
    modes, orders = STOPS[stop]
    running = MemorySystem(match_of(APPS, SEED).world, modes=modes)
    running.bus.publish(*orders)
    declared = running.cluster.inventory()
    for tick in islice(running.ticks(), TICKS):
        for app in declared:
            running.bus.publish(*changed_underneath(app, tick))
    planned = sum(len(done.apps) for done in running.bus.events(ScaleApplied))
    assert planned > 0
    assert not running.cluster.journal


def forging(claims: dict[str, int]) -> Callable[[Observed], Observed]:
    """Replace what samples say of a domain's pods, in some ticks."""

    def forge(honest: Observed) -> Observed:
        if honest.tick not in FORGED_AT:
            return honest
        sampled = [
            msgspec.structs.replace(
                batch, **{name: [value] * len(batch.apps) for name, value in claims.items()}
            )
            if batch.domain == DOMAIN
            else batch
            for batch in honest.sampled
        ]
        return msgspec.structs.replace(honest, sampled=sampled)

    return forge


@pytest.mark.parametrize(
    "claims",
    [
        {"replicas": 1, "ready": 1},
        {"replicas": 1, "ready": 1, "cpu_cores": 0},
        {"replicas": 100_000, "ready": 100_000, "pending": 100_000},
        {"cpu_request": 100_000},
    ],
    ids=str,
)
def test_forged_samples_decrease_nothing(
    claims: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    running = MemorySystem(match_of(APPS, SEED).world)
    forge, observation = forging(claims), running.cluster.observation
    monkeypatch.setattr(running.cluster, "observation", lambda: forge(observation()))
    for _ in islice(running.ticks(), TICKS):
        pass
    forged = [e for e in running.cluster.journal if e.domain == DOMAIN and e.tick in FORGED_AT]
    for entry in forged:
        assert entry.before is not None
        assert entry.after is not None
        assert entry.after.replicas >= entry.before.replicas
        assert entry.after.cpu_request >= entry.before.cpu_request
    done = [e for e in running.bus.events(ScaleApplied) if e.tick in FORGED_AT]
    assert sum(e.contradictions for e in done if e.domain == DOMAIN) > 0
    assert sum(e.contradictions for e in done if e.domain != DOMAIN) == 0

"""On a real Kafka: policies are promoted, killed in each stage, refused and taken back."""

import math
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from models.registry.manifest import MANIFEST, MODEL, Kind, Tensor, read_manifest
from models.registry.store import Entry, FolderStore
from schemas.budget_granted import BudgetGranted
from schemas.demand_forecast import DemandForecast
from schemas.domain_observed import DomainObserved
from schemas.model_judged import ModelJudged
from schemas.model_promoted import ModelPromoted, RolloutRules
from schemas.scale_planned import ScalePlanned
from schemas.topics import topic_of
from services._kit.clock import rfc3339
from services.admin.decisions import Decisions, record_decisions
from services.admin.orders import publish
from services.admin.promotions import KEYS, SOURCE
from services.admin.reader import ReadRecord, TopicReader
from services.devcluster import record
from services.devcluster.connect import options_for_home
from services.devcluster.launch import system
from services.devcluster.lifecycle import has_ended, wait
from services.devcluster.probe import read_journal
from services.devcluster.record import COLLECTOR
from services.devcluster.request import Request
from services.simcluster.target import Entry as JournalEntry
from tests.decision_helpers import SCENARIO
from tests.planted_models import (
    OTHER_KEY,
    PUBLIC_PEM,
    commander_files,
    commander_network,
    features,
    forecaster_files,
    soldier_files,
    soldier_network,
)
from tests.service_helpers import CLUSTER

APPS: Final = int(os.environ.get("HIRL_MODELS_APPS", "60"))
SPEED: Final = float(os.environ.get("HIRL_MODELS_SPEED", "10"))
TIMEOUT_S: Final = 240.0
STAGES: Final = ("shadow", "canary 5%", "canary 30%", "canary 100%", "serving 100%")
ENDS: Final = ("serving", "refused", "rolled-back")
SCOPES: Final = {
    "commander": ("cluster",), "soldier": CLUSTER.domain_names, "forecaster": ("cluster",)
}  # fmt: skip
_CAUSES: Final = {
    "commander": ScalePlanned, "soldier": DomainObserved, "forecaster": DomainObserved
}  # fmt: skip
"""What the last input of a decision is."""
_SLOW_STAGE: Final = 15
"""Soldiers decide each tick: after a kill they would pass every stage while they catch up."""
_DECISIONS: Final = {
    "commander": BudgetGranted, "soldier": ScalePlanned, "forecaster": DemandForecast
}  # fmt: skip

Files = dict[str, bytes]


class Promoted(NamedTuple):
    """A version that was promoted, and the steps of its rollout."""

    model: str
    name: str
    ordered_at: float
    """Wall seconds of the order."""
    steps: list[ModelJudged]
    killed: frozenset[str] = frozenset()
    """Stages in which its service was killed."""

    def phases(self, scope: str) -> tuple[str, ...]:
        return tuple(phase_of(one) for one in self.steps if one.scope == scope)

    @property
    def reasons(self) -> set[str]:
        """Of the ends."""
        return {one.reason for one in self.steps if one.phase in ENDS}


class Figures(NamedTuple):
    """What a promotion did to decisions, from the records of a run."""

    advised: int
    """Decisions that it was behind, alone or as a canary."""
    first_s: float
    """From the order to the record of the first of them; NaN without any."""
    swap_ticks: int
    """Most ticks from "serving" to the next decision that it did not make alone."""
    back_s: float
    """From the last input of the tick in which the first scope took it back to the record of the
    last scope's rollback."""


class Rolled(NamedTuple):
    """A run in which policies of all kinds were promoted one after another."""

    promoted: dict[str, Promoted]
    figures: dict[str, Figures]
    decisions: Decisions
    journal: list[JournalEntry]
    failed: list[str]


class System:
    """A running system and its store of models."""

    def __init__(self, root: Path, options: dict[str, Any], store: FolderStore) -> None:
        self.root, self._options, self._store = root, options, store

    def promote(
        self, kind: Kind, files: Files, ends: tuple[str, ...] = ENDS, *, kill: bool = False
    ) -> Promoted:
        """Promote an artefact and wait for its end in every scope; kill its service each stage."""
        manifest, model = read_manifest(files[MANIFEST], "planted"), KEYS[kind]
        self._store.write(Entry(kind, manifest.version), files)
        ordered_at, killed = time.time(), set[str]()
        slow = _SLOW_STAGE if kill and model == "soldier" else None
        order = ModelPromoted(
            model=model, version=manifest.name, uri=self._store.url, sha256=manifest.version,
            unlock=True, promoted_at=rfc3339(ordered_at), reason="a test", issued_by="test",
            # Without samples of training, nothing is compared.
            rules=RolloutRules(
                drift_minutes=1, shadow_decisions=slow, stage_decisions=slow
            ),
        )  # fmt: skip
        publish(self._options, [order], SOURCE)
        while True:
            found = Promoted(model, manifest.name, ordered_at, self._steps(manifest.version))
            by_scope = [found.phases(scope) for scope in SCOPES[model]]
            if all(phases and phases[-1].split()[0] in ends for phases in by_scope):
                return found._replace(killed=frozenset(killed))
            stages = {phases[-1] for phases in by_scope if phases} - {STAGES[-1]}
            if kill and stages - killed and self._kill(model):
                killed |= stages
            assert time.time() - ordered_at < TIMEOUT_S, by_scope
            time.sleep(0.1)

    def figures(self, promoted: dict[str, Promoted]) -> dict[str, Figures]:
        """What each promotion did to decisions."""
        found = {}
        for model, scopes in SCOPES.items():
            inputs, decisions = (self._records(kinds[model]) for kinds in (_CAUSES, _DECISIONS))
            arrived: dict[tuple[str, int], float] = {}
            for one, event in inputs:
                scope = event.domain if len(scopes) > 1 else scopes[0]
                key = scope, event.tick
                arrived[key] = max(arrived.get(key, 0.0), one.delivery.timestamp)
            judged = {
                (e.sha256, e.scope, e.phase, e.share): one.delivery.timestamp
                for one, e in self._records(ModelJudged)
            }
            for case, one_promoted in promoted.items():
                if one_promoted.model == model:
                    found[case] = _figures(one_promoted, decisions, arrived, judged)
        return found

    def _steps(self, sha256: str) -> list[ModelJudged]:
        return [event for _, event in self._records(ModelJudged) if event.sha256 == sha256]

    def _records(self, kind: type[Any]) -> list[tuple[ReadRecord, Any]]:
        with TopicReader(self._options) as reader:
            found = reader.read_to_end([topic_of(kind).name])
        return [(one, one.event) for one in found if one.event is not None]

    def _kill(self, service: str) -> bool:
        """Whether there was a process to kill: the one before may be starting again."""
        process = record.running(self.root).status(service).process
        if process is None:
            return False
        os.kill(process.pid, signal.SIGKILL)
        return True


def _figures(
    promoted: Promoted,
    decisions: list[tuple[ReadRecord, Any]],
    arrived: dict[tuple[str, int], float],
    judged: dict[tuple[str, str, str, float], float],
) -> Figures:
    model, name = promoted.model, promoted.name
    advised = [
        one.delivery.timestamp - promoted.ordered_at
        for one, event in decisions
        if name in names_of(model, event)
    ]
    swap, back_s = 0, 0.0
    for step in promoted.steps:
        if step.phase == "serving":
            alone = [
                event.tick for _, event in decisions
                if names_of(model, event) == [name]
                and event.tick > step.tick and step.scope in ("cluster", event.domain)
            ]  # fmt: skip
            swap = max(swap, min(alone, default=step.tick + 10**6) - step.tick)
    backs = {
        judged[one.sha256, one.scope, one.phase, one.share]: one
        for one in promoted.steps
        if one.phase == "rolled-back"
    }
    if backs:
        first = backs[min(backs)]
        back_s = max(backs) - arrived[first.scope, first.tick]
    return Figures(len(advised), min(advised, default=math.nan), swap, back_s)


def names_of(model: str, event: Any) -> list[str]:
    """The promoted models behind a decision."""
    if isinstance(event, DemandForecast):
        return [event.model]
    return [event.versions[one] for one in (model, f"{model}-canary") if one in event.versions]


def phase_of(event: ModelJudged) -> str:
    return f"{event.phase} {event.share:.0%}" if event.share else event.phase


def truncated(files: Files) -> Files:
    return files | {MODEL: files[MODEL][:-100]}


_TWO_MEMBERS: Final = [
    Tensor(name="need", shape=["rows", 2], unit="factor", low=1 / 1.5, high=1.5),
    Tensor(name="cpu", shape=["rows", 2], unit="factor", low=1.0, high=2.0),
]
COMMANDER: Final[Kind] = "commander-policy"
SOLDIER: Final[Kind] = "soldier-policy"
FORECASTER: Final[Kind] = "forecaster"
CASES: Final[dict[str, tuple[Kind, Files, tuple[str, ...], str]]] = {
    "good Commander": (COMMANDER, commander_files(commander_network(headroom=0.99)), STAGES, ""),
    "killed Commander": (COMMANDER, commander_files(commander_network(headroom=0.98)), STAGES, ""),
    "wrongly signed": (
        COMMANDER, commander_files(commander_network(headroom=0.95), OTHER_KEY), ("refused",),
        "trusted keys",
    ),
    "truncated": (
        COMMANDER, truncated(commander_files(commander_network(headroom=0.96))), ("refused",),
        "was changed or truncated",
    ),
    "other features": (
        COMMANDER, commander_files(commander_network(headroom=0.97), features_sha256="1" * 64),
        ("refused",), "trained on other features",
    ),
    "wrong shape": (
        SOLDIER, soldier_files(soldier_network(0.97), outputs=_TWO_MEMBERS), ("refused",),
        "expected the shape",
    ),
    "Commander: drifted": (
        COMMANDER,
        commander_files(commander_network(headroom=0.94), extra=features(COMMANDER, spread=0.0)),
        ("shadow", "rolled-back"), "is another than in training",
    ),
    "Commander: NaN": (
        COMMANDER, commander_files(commander_network(bad="nan")), ("shadow", "rolled-back"),
        "no number",
    ),
    "Commander: most": (
        COMMANDER,
        commander_files(
            commander_network(headroom=1.25, urgency=4.0, comfort=1.5, spare=3.0, nodes=1.0)
        ),
        ("shadow", "rolled-back"),
        "above the incumbent's",
    ),
    "Commander: 1e30": (
        COMMANDER, commander_files(commander_network(headroom=1e30)), ("shadow", "rolled-back"),
        "is above",
    ),
    "Commander: slow": (
        COMMANDER, commander_files(commander_network(bad="slow")), ("shadow", "rolled-back"),
        "took ",
    ),
    "good forecaster": (FORECASTER, forecaster_files(), STAGES, ""),
    "killed forecaster": (FORECASTER, forecaster_files(change=2e-6), STAGES, ""),
    "forecaster: NaN": (
        FORECASTER, forecaster_files(bad="nan"), ("refused",), "differs from its samples"
    ),
    # Watched, and not drifted.
    "good Soldiers": (
        SOLDIER, soldier_files(soldier_network(0.99), extra=features(SOLDIER, spread=1.0)),
        STAGES, "",
    ),
    "Soldiers: most": (
        SOLDIER, soldier_files(soldier_network(1.5)),
        # A domain whose plan is the same either way finds nothing against it in one decision.
        ("shadow", "canary 5%", "rolled-back"),
        "above the incumbent's",
    ),
    # Compared once a minute, so it may have passed some stages of one decision by then.
    "Soldiers: drifted": (
        SOLDIER, soldier_files(soldier_network(0.96), extra=features(SOLDIER, spread=0.0)),
        (*STAGES, "rolled-back"), "is another than in training",
    ),
    "Soldiers: wrongly signed": (
        SOLDIER, soldier_files(soldier_network(0.95), OTHER_KEY), ("refused",), "trusted keys",
    ),
    "Soldiers: truncated": (
        SOLDIER, truncated(soldier_files(soldier_network(0.94))), ("refused",),
        "was changed or truncated",
    ),
    "Soldiers: NaN": (
        SOLDIER, soldier_files(soldier_network(bad="nan")), ("shadow", "rolled-back"), "no number",
    ),
    "Soldiers: slow": (
        SOLDIER, soldier_files(soldier_network(bad="slow")), ("shadow", "rolled-back"), "took ",
    ),
    # The last one: what comes after it would wait until they have caught up.
    "killed Soldiers": (SOLDIER, soldier_files(soldier_network(0.98)), STAGES, ""),
}  # fmt: skip
"""Kind, files, the phases after loading, and what the reason says."""


@pytest.fixture(scope="module")
def rolled(workplace: Path) -> Iterator[Rolled]:
    root = workplace / "models"
    store = FolderStore((workplace / "store").resolve())
    key = workplace.resolve() / "release.pub"
    key.write_bytes(PUBLIC_PEM)
    environment = {
        "HIRL_FORECASTER_MODEL": "tft",
        "HIRL_MODEL_STORE": store.url,
        "HIRL_MODEL_KEYS": str(key),
        "HIRL_ROLLOUT_SHADOW_DECISIONS": "1",
        "HIRL_ROLLOUT_STAGE_DECISIONS": "1",
    }
    request = Request(scenario=SCENARIO, seed=3, apps=APPS, speed=SPEED)
    with system(request, root, environment=environment) as run:
        wait(root, ticks=9, timeout_s=TIMEOUT_S)
        options = options_for_home(Path(run.kafka_home))
        ours = System(root, options, store)
        promoted = {
            case: ours.promote(
                kind, files, ENDS if phases == STAGES else ENDS[1:], kill=case.startswith("killed")
            )
            for case, (kind, files, phases, _) in CASES.items()
        }
        # Some decisions more, for the swap of the last one.
        time.sleep(120.0 / SPEED)
        collector = record.running(root).status(COLLECTOR).process
        assert collector is not None
        os.kill(collector.pid, signal.SIGTERM)
        decisions = record_decisions(options, lambda: has_ended(record.running(root)))
        figures = ours.figures(promoted)
        yield Rolled(promoted, figures, decisions, read_journal(run), record.running(root).failed)


def test_figures_for_the_results_page(rolled: Rolled, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print()  # noqa: T201
        for case, one in rolled.figures.items():
            promoted = rolled.promoted[case]
            ends = {promoted.phases(scope)[-1] for scope in SCOPES[promoted.model]}
            print(f"{case}: {', '.join(sorted(ends))}; {one}; {min(promoted.reasons)}")  # noqa: T201
            if promoted.killed:
                print(f"  killed in: {', '.join(sorted(promoted.killed))}")  # noqa: T201
    assert rolled.figures.keys() == CASES.keys()


@pytest.mark.parametrize("case", CASES)
def test_each_policy_ends_where_it_should_in_every_scope(rolled: Rolled, case: str) -> None:
    _, _, phases, reason = CASES[case]
    promoted = rolled.promoted[case]
    for scope in SCOPES[promoted.model]:
        found = promoted.phases(scope)
        if phases == STAGES:
            # Also if its service was killed in each of them.
            assert found == ("loading", *STAGES)
            if case.startswith("killed"):
                # On a busy machine some stages pass while a service catches up.
                assert len(promoted.killed) >= 2
        else:
            # A domain may hear of a rollback elsewhere before it has asked the policy itself.
            assert found[-1] in ("refused", "rolled-back")
            assert set(found) <= {"loading", *phases, "refused", "rolled-back"}
    assert any(reason in one for one in promoted.reasons)
    assert rolled.failed == []


@pytest.mark.parametrize("case", [case for case, one in CASES.items() if len(one[2]) < 3])
def test_what_is_refused_or_taken_back_in_shadow_was_behind_no_decision(
    rolled: Rolled, case: str
) -> None:
    assert rolled.figures[case].advised == 0


@pytest.mark.parametrize("case", [case for case, one in CASES.items() if one[2] == STAGES])
def test_a_promoted_policy_decides_alone_from_the_next_decision_on(
    rolled: Rolled, case: str
) -> None:
    figures = rolled.figures[case]
    assert figures.advised > 0
    # Commander and forecaster decide each sixth tick.
    assert figures.swap_ticks <= (1 if rolled.promoted[case].model == "soldier" else 6)


def test_no_change_is_lost_or_doubled(rolled: Rolled) -> None:
    reported = Counter(
        (applied.decision_id, app)
        for applied in rolled.decisions.applied.values()
        for at, app in enumerate(applied.apps)
        if applied.outcomes[at] == "applied"
    )
    done = Counter((one.decision_id, one.app) for one in rolled.journal if one.outcome == "applied")
    assert set(done.values()) <= {1}
    assert done == reported
    assert done.total() > 0

"""In any history, whatever changed underneath, no write changes what may not be changed.

`make test-off-switch` plays a million histories instead of hundreds.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from random import Random
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.control.breaker.actions import permitted
from models.control.change_history import ChangeHistory
from schemas.app_declared import AppDeclared
from schemas.breaker_changed import BreakerChanged
from schemas.domain_observed import DomainObserved, Pods
from schemas.fields import Mode
from schemas.override_issued import OverrideIssued
from schemas.scale_planned import ScalePlanned
from services._kit.clock import ManualClock
from services.actuator.decide import ActuatorHandler
from services.actuator.permissions import Permissions, Verdict, in_canary
from services.actuator.settings import Modes
from services.actuator.state import ActuatorState
from services.actuator.target import Change, Present, Read, Reading, Write
from tests.service_helpers import APPS, CLUSTER, DOMAIN, declared, granted, heartbeat, time_of

COUNT: Final = int(os.environ.get("HIRL_OFF_SWITCH_HISTORIES", "0"))
PART: Final = 10_000
TICK: Final = 100
CANARY: Final = 0.5
MODES: Final[tuple[Mode, ...]] = ("off", "preview", "canary", "auto")
PAUSES: Final = ("all", "scale-in", "scale-out")
STATES: Final = ("open", "stale", "half-open", "closed")
"""The strictest first."""
REASONS: Final = ("scale-out", "scale-in", "yield", "resize", "hold-in-tolerance", "of-a-newer-one")
Numbers = dict[str, Any]
"""Columns of whole numbers."""


class History(NamedTuple):
    """What the actuator has learned, and what the target has."""

    modes: Modes
    apps: list[AppDeclared]
    overrides: list[OverrideIssued]
    heartbeats: list[BreakerChanged]
    breaker: str
    """The state that the heartbeats mean for the plan."""
    frame: DomainObserved
    plan: ScalePlanned
    target: dict[str, Present]
    budget: float | None
    remembered: ChangeHistory


# Drawing a history.


def drawn(seed: int) -> History:
    rng = Random(seed)
    observed = numbers(rng, None)
    heartbeats, breaker = breakers(rng)
    frame = DomainObserved(
        tick=TICK,
        time=time_of(TICK),
        domain=DOMAIN,
        apps=list(APPS),
        pods=Pods(
            **observed,
            ready=observed["replicas"],
            starting=[0] * len(APPS),
            pending=[rng.choice((0, 0, count)) for count in observed["replicas"]],
            restarts=[0] * len(APPS),
        ),
        measured={},
        features={"missing": [float(rng.random() < 0.1) for _ in APPS]},
        load_pods=[rng.random() * 100 for _ in APPS],
        usual_load_pods=[0.0] * len(APPS),
    )
    plan = ScalePlanned(
        tick=TICK,
        time=time_of(TICK),
        domain=DOMAIN,
        decision_id=f"{DOMAIN}/{TICK}",
        epoch=-1,
        policy="any/1",
        apps=list(APPS),
        reasons=[rng.choice(REASONS) for _ in APPS],
        **numbers(rng, observed),
    )
    domains: dict[str, Mode] = {DOMAIN: mostly(rng, "auto", MODES)} if rng.random() < 0.2 else {}
    return History(
        Modes(mostly(rng, "auto", MODES), domains, CANARY),
        [app(rng, name) for name in APPS],
        [override(rng) for _ in range(rng.choice((0, 0, 1, 2, 4)))],
        heartbeats,
        breaker,
        frame,
        plan,
        targets(rng, observed),
        mostly(rng, 1000.0, (None, 0.0, 20.0)),
        remembered(rng),
    )


def mostly(rng: Random, usual: Any, others: Sequence[Any]) -> Any:
    """Rarely stopped in more than one way: that would hide a way that does not stop."""
    return usual if rng.random() < 0.85 else rng.choice(others)


def numbers(rng: Random, around: Numbers | None) -> Numbers:
    """Replicas and sizes; around others, often the same."""
    if around is None:
        return {
            "replicas": [mostly(rng, rng.choice((9, 10, 40, 400)), (0, 1)) for _ in APPS],
            "cpu_request": [mostly(rng, 1000, (0, 500)) for _ in APPS],
            "memory_request": [rng.choice((512, 2048)) for _ in APPS],
        }
    return {
        name: [int(value * rng.choice((0.5, 1, 1, 1.1, 3))) for value in column]
        for name, column in around.items()
    }


def targets(rng: Random, observed: Numbers) -> dict[str, Present]:
    """As observed, or a little or very different; sometimes without an app."""
    found = {}
    for index, name in enumerate(APPS):
        factor = mostly(rng, 1, (1.1, 0.9, 30, 0.1))
        own = {column: int(values[index] * factor) for column, values in observed.items()}
        if rng.random() < 0.95:
            pods = {"ready": own["replicas"], "starting": 0, "pending": 0}
            found[name] = msgspec.convert({**own, **pods}, Present)
    return found


def app(rng: Random, name: str) -> AppDeclared:
    """Bounds that may be anything: they were changed after the plan."""
    return declared(
        name,
        domain=mostly(rng, DOMAIN, ("data",)),
        min_replicas=rng.choice((0, 2, 20)),
        max_replicas=mostly(rng, 1000, (None, 1, 5, 50)),
        mode=mostly(rng, None, MODES),
        pause=mostly(rng, "none", PAUSES),
    )


def override(rng: Random) -> OverrideIssued:
    kind: Any = rng.choice(("app", "app", "domain", "cluster"))
    scopes = {"app": rng.choice(APPS), "domain": rng.choice((DOMAIN, "data")), "cluster": "cluster"}
    return OverrideIssued(
        scope=scopes[kind],
        kind=kind,
        mode=mostly(rng, None, MODES),
        replicas=rng.choice((None, 0, 3, 30, 3000)),
        pause=mostly(rng, "none", PAUSES),
        until=rng.choice((None, time_of(TICK - 1), time_of(TICK + 1))),
    )


def breakers(rng: Random) -> tuple[list[BreakerChanged], str]:
    """Heartbeats of the domain and the cluster in any order, and what they mean."""
    sent, found = [], []
    for scope in (DOMAIN, "cluster"):
        state = mostly(rng, "closed", (None, "half-open", "open", "stale"))
        if state is None:
            continue
        found.append(state)
        events = [] if state == "stale" else [(TICK - rng.choice((0, 1, 6)), state)]
        # Late ones and such from the future; neither may count.
        events += [(TICK - 7 - late, "closed") for late in range(rng.choice((0, 1, 5)))]
        events += [(TICK + 50 * far, "closed") for far in range(1, rng.choice((1, 2, 3)))]
        if state == "stale" and not events:
            events = [(10**9, "closed")]
        rng.shuffle(events)
        sent += [
            msgspec.structs.replace(heartbeat(0, state), scope=scope, tick=tick)
            for tick, state in events
        ]
    return sent, min(found, key=STATES.index, default="stale")


def remembered(rng: Random) -> ChangeHistory:
    some = np.random.default_rng(rng.randrange(2**32))
    return ChangeHistory(
        rested=(TICK + some.integers(-40, 40, (1, len(APPS)))).astype(np.int32),
        decreased=some.choice([0.0, 5000.0, 1e6], (1, 6, len(CLUSTER.domains))),
        sizing=some.choice([0, 1000, 4000], (1, 2, len(APPS))).astype(np.int32),
    )


# Playing it, and what must hold.


def written(history: History) -> list[Change]:
    """The changes that the actuator writes."""
    clock, handler = ManualClock(), ActuatorHandler(CLUSTER, history.modes, 0.0, None)
    for event in (*history.apps, *history.overrides, *history.heartbeats):
        handler.learn_recorded(event, clock.date(), clock)
    state: ActuatorState = replace(handler.start(DOMAIN), names=APPS, history=history.remembered)
    if history.budget is not None:
        budget = granted(TICK - 1, cores=history.budget)
        state = handler.handle(budget, state, clock).state
    state = handler.handle(history.frame, state, clock).state
    step = handler.handle(history.plan, state, clock)
    assert isinstance(step.read, Read)
    found = Reading(domain=DOMAIN, tick=TICK, apps=history.target)
    (write,) = handler.written(found, step.state, clock).writes
    assert isinstance(write, Write)
    return write.changes


def check(history: History) -> int:
    """Fail on a change that is not permitted; returns how many there are."""
    changes = written(history)
    for change in changes:
        app = next(one for one in history.apps if one.app == change.app)
        now = history.target[change.app]
        steps = [
            change.replicas - now.replicas,
            change.cpu_request - now.cpu_request,
            change.memory_request - now.memory_request,
        ]
        assert change.before.replicas == now.replicas
        assert app.domain == DOMAIN
        assert app.max_replicas is not None
        mode, pauses = ordered(app, history)
        assert history.breaker in ("closed", "half-open")
        assert mode not in ("off", "preview")
        assert mode == "auto" or in_canary(app.app, CANARY)
        assert "all" not in pauses
        if history.breaker == "half-open" or "scale-in" in pauses:
            assert min(steps) >= 0
        if "scale-out" in pauses:
            assert max(steps) <= 0
    return len(changes)


def check_all(seeds: range) -> int:
    return sum(check(drawn(seed)) for seed in seeds)


def ordered(app: AppDeclared, history: History) -> tuple[str, set[str]]:
    """Mode and pauses of an app, with the newest override of each kind and scope."""
    newest = {(one.kind, one.scope): one for one in history.overrides}
    scopes = (("app", app.app), ("domain", app.domain), ("cluster", "cluster"))
    force = [
        newest[scope]
        for scope in scopes
        if scope in newest and newest[scope].until != time_of(TICK - 1)
    ]
    modes = [one.mode for one in force if one.mode is not None]
    configured = history.modes.domains.get(app.domain, history.modes.cluster)
    mode = min(modes or (app.mode or configured, configured), key=MODES.index)
    return mode, {app.pause, *(one.pause for one in force)}


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_no_write_changes_what_is_off_paused_or_under_a_breaker(seed: int) -> None:
    check(drawn(seed))


def test_the_histories_have_changes_that_are_permitted() -> None:
    assert check_all(range(300)) > 50


@pytest.mark.parametrize("broken", ["hold_reason", "verdict"])
def test_an_actuator_that_checks_no_permission_is_caught(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = Verdict("closed", permitted(("none",), 0))
    answer = closed if broken == "verdict" else ""
    monkeypatch.setattr(Permissions, broken, lambda *_: answer)
    with pytest.raises(AssertionError):
        check_all(range(300))


@pytest.mark.skipif(COUNT == 0, reason="minutes: HIRL_OFF_SWITCH_HISTORIES=1000000 asks for it")
def test_no_write_of_very_many_histories_changes_what_is_off(
    capsys: pytest.CaptureFixture[str],
) -> None:
    parts = [range(first, min(first + PART, COUNT)) for first in range(0, COUNT, PART)]
    with ProcessPoolExecutor() as pool:
        changes = sum(pool.map(check_all, parts))
    with capsys.disabled():
        print(f"\n{COUNT:,} histories, {changes:,} permitted changes, 0 others")  # noqa: T201
    assert changes > 0

"""The actuator's protocol, explored exhaustively within bounds, and mistakes that are found.

`make test-protocol` explores further. docs/concepts/kit.md says what is explored and what is not.
"""

import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import pytest

from tests.behaviour.protocol import actuator_mutants as mutants
from tests.behaviour.protocol.actuator_events import (
    DUPLICATE,
    FOREIGN,
    GRACE,
    LOSS,
    MINUTE,
    NETWORK,
    Scenario,
    off,
)
from tests.behaviour.protocol.actuator_world import ActuatorModel
from tests.behaviour.protocol.explorer import explore_and_close
from tests.service_helpers import heartbeat

log = logging.getLogger(__name__)

FURTHER: Final = bool(os.environ.get("HIRL_PROTOCOL_FURTHER"))
ONE_TICK: Final = Scenario(replicas=((10, 10), (12, 9)))
THREE_TICKS: Final = ((10, 10), (12, 9), (13, 9), (14, 9))
OPENS: Final = (heartbeat(1, "open"),)
APPLIED: Final = {"applied: scale-out", "applied: scale-in", "journal: applied"}

EXPLORED: Final[Mapping[str, tuple[Scenario, set[str]]]] = {
    "two ticks and a fault": (
        Scenario(reference=OPENS, faults={LOSS: 1, DUPLICATE: 1, NETWORK: 1, FOREIGN: 1}),
        {
            "journal: repeat", "journal: superseded", "journal: conflict", "held: breaker-open",
            "superseded: newer-plan", "held: target-changed", "held: target-unreadable",
        },
    ),
    "a tick that is switched off, and two faults": (
        replace(ONE_TICK, reference=(off(),), faults={LOSS: 1, NETWORK: 1}, most_faults=2),
        {"journal: repeat", "journal: superseded", "held: off"},
    ),
    "two ticks and time, or a crash": (
        Scenario(faults={LOSS: 1, GRACE: 1, MINUTE: 1}),
        {"held: no-frame", "held: breaker-stale", "journal: repeat"},
    ),
    "two ticks in lock-step and a fault": (
        Scenario(reference=OPENS, lock_step=True, faults={LOSS: 1, NETWORK: 1, DUPLICATE: 1}),
        {"journal: repeat", "journal: superseded", "held: breaker-open"},
    ),
}  # fmt: skip
"""What is explored, and what has to be among its ends besides changes that are applied."""

EXPLORED_FURTHER: Final[Mapping[str, Scenario]] = {
    "a tick that is switched off, and two losses of the owner": replace(
        ONE_TICK, reference=(off(),), faults={LOSS: 2, NETWORK: 1}, most_faults=2
    ),
    "two ticks and two faults of any kind": Scenario(
        reference=OPENS,
        faults={LOSS: 2, DUPLICATE: 1, NETWORK: 2, FOREIGN: 1, GRACE: 1, MINUTE: 1},
        most_faults=2,
    ),
    "a tick and three faults": replace(
        ONE_TICK, reference=OPENS, faults={LOSS: 2, NETWORK: 2, FOREIGN: 1}, most_faults=3
    ),
    "a breaker that opens and closes, an order, and two faults": replace(
        ONE_TICK,
        reference=(*OPENS, heartbeat(2), off()),
        faults={LOSS: 2, NETWORK: 1, DUPLICATE: 1},
        most_faults=2,
    ),
    "three ticks and a fault": Scenario(
        replicas=THREE_TICKS,
        budgets=(0, 6),
        reference=OPENS,
        faults={LOSS: 1, DUPLICATE: 1, NETWORK: 1},
    ),
    "three ticks in lock-step and two faults": Scenario(
        replicas=THREE_TICKS,
        lock_step=True,
        faults={LOSS: 1, NETWORK: 1},
        most_faults=2,
    ),
}

MUTANTS: Final[Mapping[str, tuple[Scenario, str]]] = {
    "writes before it commits": (
        replace(ONE_TICK, faults={LOSS: 1}, engine=mutants.WritesBeforeItCommits),
        "a zombie sends PUT of tick 1 with 2 changes without a commit",
    ),
    "acknowledges before it commits": (
        replace(ONE_TICK, faults={LOSS: 1}, engine=mutants.AcknowledgesBeforeItCommits),
        "the plan of tick 1 has 0 outcomes",
    ),
    "is not fenced": (
        replace(ONE_TICK, faults={LOSS: 1}, fences=False),
        "a state is overwritten by a process that did not know it",
    ),
    "forgets its write": (
        replace(ONE_TICK, faults={LOSS: 1}, handler=mutants.ForgetsItsWrite),
        "the plan of tick 1 has 0 outcomes",
    ),
    "forgets its closed ticks": (
        replace(ONE_TICK, faults={DUPLICATE: 1}, handler=mutants.ForgetsItsClosedTicks),
        "a state of tick 1 is replaced by one of 0",
    ),
    "acknowledges frames that are only in memory": (
        replace(
            ONE_TICK,
            lock_step=True,
            faults={LOSS: 1},
            handler=mutants.AcknowledgesFramesInMemory,
        ),
        "the plan of tick 1 has 0 outcomes",
    ),
    "repeats a write without asking the breaker": (
        replace(ONE_TICK, reference=OPENS, faults={LOSS: 1}, handler=mutants.RepeatsWithoutAsking),
        "a change of tick 1 is requested although the breaker is open",
    ),
    "repeats a write without asking for orders": (
        replace(
            ONE_TICK, reference=(off(),), faults={LOSS: 1}, handler=mutants.RepeatsWithoutAsking
        ),
        "a change of tick 1 is requested although the domain is off",
    ),
    "repeats a write without asking the clock": (
        replace(
            ONE_TICK,
            faults={NETWORK: 1, MINUTE: 1},
            most_faults=2,
            handler=mutants.RepeatsWithoutAsking,
        ),
        "a change of tick 1 is requested although the breaker is stale",
    ),
    "obeys old epochs": (
        replace(ONE_TICK, budgets=(0, 6), faults={DUPLICATE: 1}, handler=mutants.ObeysOldEpochs),
        "a state of epoch 1 is replaced by one of 0",
    ),
    "takes silence for a refusal": (
        replace(ONE_TICK, faults={NETWORK: 1}, client=mutants.TakesSilenceForARefusal),
        "tick 1 of payments-0001 is held, and the journal has a change",
    ),
    "takes a rejection for the last word": (
        replace(
            ONE_TICK,
            faults={NETWORK: 2},
            most_faults=2,
            client=mutants.TakesARejectionForTheLastWord,
        ),
        "tick 1 of payments-0001 is held, and the journal has a change",
    ),
    "has forgotten which decisions were made": (
        replace(
            ONE_TICK,
            faults={NETWORK: 1},
            client=mutants.ForgetsDecisions,
            target=mutants.ForgetfulTarget,
        ),
        "tick 1 of payments-0001 is held, and the journal has a change",
    ),
    "writes to a target that compares nothing": (
        replace(ONE_TICK, faults={FOREIGN: 1}, target=mutants.TargetWithoutComparison),
        "tick 1 of payments-0001 is applied from and to other numbers",
    ),
    "writes to a target that reopens ticks": (
        replace(ONE_TICK, reference=OPENS, faults={LOSS: 1}, target=mutants.TargetThatReopensTicks),
        "tick 1 of payments-0001 is held, and the journal has a change",
    ),
}


@pytest.mark.parametrize("name", EXPLORED)
def test_no_change_is_lost_doubled_or_made_against_an_order(name: str) -> None:
    scenario, ends = EXPLORED[name]
    found = explore_and_close(ActuatorModel(scenario))
    assert found.counterexample is None, found.counterexample
    assert found.complete
    assert found.ends.keys() >= ends | APPLIED


@pytest.mark.skipif(not FURTHER, reason="minutes: `make test-protocol`")
@pytest.mark.parametrize("name", EXPLORED_FURTHER)
def test_no_change_is_lost_doubled_or_made_against_an_order_in_more_ticks(name: str) -> None:
    found = explore_and_close(ActuatorModel(EXPLORED_FURTHER[name]))
    assert found.counterexample is None, found.counterexample
    assert found.complete


@pytest.mark.parametrize("name", MUTANTS)
def test_the_checker_catches_an_actuator_that(name: str) -> None:
    scenario, wrong = MUTANTS[name]
    found = explore_and_close(ActuatorModel(scenario)).counterexample
    log.info("%s", found)
    assert found is not None
    assert found.wrong == wrong

"""The breakers, explored exhaustively within bounds, and mistakes that are found.

`make test-protocol` explores further. docs/concepts/kit.md says what is explored and what is not.
"""

import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import pytest

from tests.behaviour.protocol import breaker_mutants as mutants
from tests.behaviour.protocol.breaker_events import (
    AGAIN,
    BAD,
    DOMAINS,
    FAILING,
    GOOD,
    LOSS,
    NONE,
    RESTART,
    Scenario,
)
from tests.behaviour.protocol.breaker_world import BreakerModel
from tests.behaviour.protocol.explorer import explore_and_close

log = logging.getLogger(__name__)

FURTHER: Final = bool(os.environ.get("HIRL_PROTOCOL_FURTHER"))
FAULTS: Final = {RESTART: 1, LOSS: 1, AGAIN: 1}
TRIPPED: Final = Scenario(before=(GOOD, BAD, BAD), ticks=7, faults=FAULTS)
"""It opens in tick 3 and can be closed again in tick 7."""
TOGETHER: Final = Scenario(domains=DOMAINS, kinds=(GOOD,), lock_step=True)
"""Two domains, one of which speaks for the cluster."""
RETURNS: Final = replace(TOGETHER, kinds=(GOOD, NONE), ticks=3, budgets=True)
"""The first domain may miss ticks, and takes the lead again."""

EXPLORED: Final[Mapping[str, tuple[Scenario, set[str]]]] = {
    "the first ticks and a fault": (
        Scenario(ticks=3, faults=FAULTS),
        {"data: closed", "data: open", "data: half-open", "data: lost"},
    ),
    "the ticks after a trip and a fault": (
        replace(TRIPPED, kinds=(GOOD, BAD)),
        {"data: closed", "data: open", "data: half-open", "data: lost"},
    ),
    "errors": (
        Scenario(before=(GOOD, FAILING, FAILING), kinds=(GOOD, BAD, FAILING, NONE), ticks=6),
        {"data: closed", "data: open", "data: half-open"},
    ),
    "late frames": (
        Scenario(ticks=4, most_late=1),
        {"data: closed", "data: open"},
    ),
    "a domain that falls behind by three ticks": (
        replace(TOGETHER, ticks=4, most_late=2),
        {"cluster: closed"},
    ),
    "implausible budgets and lost frames": (
        RETURNS,
        {"cluster: closed", "cluster: half-open"},
    ),
}  # fmt: skip
"""What is explored, and what has to be among its ends."""

EXPLORED_FURTHER: Final[Mapping[str, Scenario]] = {
    "seven ticks and a fault": Scenario(ticks=7, faults=FAULTS),
    "seven ticks with errors": Scenario(kinds=(GOOD, BAD, FAILING, NONE), ticks=7),
    "the ticks after a trip, some without a frame, and a fault": TRIPPED,
    "a second trip and a fault": replace(TRIPPED, before=(GOOD, BAD, BAD, GOOD, GOOD), ticks=11),
    "late frames and a fault": Scenario(ticks=5, most_late=2, faults=FAULTS),
    "a domain that falls behind by four ticks": replace(TOGETHER, ticks=5, most_late=3),
    "a domain that falls behind, and a fault": replace(
        TOGETHER, ticks=6, most_late=5, most_lag=1, faults={RESTART: 1}
    ),
    "implausible budgets, a domain that falls behind": replace(
        TOGETHER, ticks=5, most_late=4, budgets=True
    ),
    "implausible budgets and lost frames": replace(
        TOGETHER, kinds=(GOOD, NONE), ticks=5, budgets=True
    ),
    "implausible budgets and a fault": replace(TOGETHER, ticks=6, budgets=True, faults=FAULTS),
}

MUTANTS: Final[Mapping[str, tuple[Scenario, str]]] = {
    "starts closed without its state": (
        Scenario(ticks=3, faults={LOSS: 1}, handler=mutants.StartsClosedWithoutItsState),
        "data@2 is closed after lost and 1 calm ticks",
    ),
    "takes a state that is gone for a new domain": (
        Scenario(ticks=3, faults={LOSS: 1}, handler=mutants.TakesAGoneStateForANewDomain),
        "data@2 is closed after lost and 1 calm ticks",
    ),
    "closes at its start": (
        replace(TRIPPED, ticks=4, handler=mutants.ClosesAtItsStart),
        "data@3 stays closed",
    ),
    "is impatient": (
        replace(TRIPPED, most_faults=0, handler=mutants.Impatient),
        "data@4 is half-open after open and 1 calm ticks",
    ),
    "has no probation": (
        replace(TRIPPED, most_faults=0, handler=mutants.WithoutProbation),
        "data@6 is closed after half-open and 1 calm ticks",
    ),
    "is too tolerant": (
        Scenario(most_faults=0, handler=mutants.Tolerant),
        "data@3 stays closed",
    ),
    "sleeps through silence": (
        Scenario(most_faults=0, handler=mutants.SleepsThroughSilence),
        "data is closed without a frame for 30 s",
    ),
    "judges a frame twice": (
        replace(TRIPPED, faults={AGAIN: 1}, handler=mutants.JudgesOldFrames),
        "data@5 is half-open after open and 0 calm ticks",
    ),
    "is not fenced": (
        Scenario(faults={RESTART: 1}, fences=False),
        "a state is overwritten by a process that did not know it",
    ),
    "leads while it is late": (
        replace(TOGETHER, ticks=2, most_late=1, handler=mutants.LeadsWhileItIsLate),
        "cluster@1 follows @2",
    ),
    "never takes over": (
        replace(TOGETHER, ticks=5, most_late=4, handler=mutants.NeverTakesOver),
        "the cluster has had no breaker for 4 ticks",
    ),
    "obeys the last of two events of a tick": (
        replace(RETURNS, handler=mutants.ObeysTheLast),
        "cluster@3 is closed after half-open and 1 calm ticks",
    ),
    "trusts itself more than a stricter leader": (
        replace(RETURNS, handler=mutants.TrustsItself),
        "cluster@3 is closed after half-open and 1 calm ticks",
    ),
}


@pytest.mark.parametrize("name", EXPLORED)
def test_no_breaker_closes_early_goes_back_or_falls_silent(name: str) -> None:
    scenario, ends = EXPLORED[name]
    found = explore_and_close(BreakerModel(scenario))
    assert found.counterexample is None, found.counterexample
    assert found.complete
    assert found.ends.keys() >= ends


@pytest.mark.skipif(not FURTHER, reason="minutes: `make test-protocol`")
@pytest.mark.parametrize("name", EXPLORED_FURTHER)
def test_no_breaker_closes_early_goes_back_or_falls_silent_in_more_ticks(name: str) -> None:
    found = explore_and_close(BreakerModel(EXPLORED_FURTHER[name]))
    assert found.counterexample is None, found.counterexample
    assert found.complete


@pytest.mark.parametrize("name", MUTANTS)
def test_the_checker_catches_a_breaker_that(name: str) -> None:
    scenario, wrong = MUTANTS[name]
    found = explore_and_close(BreakerModel(scenario)).counterexample
    log.info("%s", found)
    assert found is not None
    assert found.wrong == wrong

"""Thresholds by priority."""

import numpy as np
import pytest

from models.control.breaker.actions import Cause
from models.control.breaker.limits import Thresholds, graded, table_of
from models.control.breaker.trip_times import trip_times

USUAL = Thresholds()


def test_p2_has_the_configured_thresholds() -> None:
    assert graded(USUAL, 2) == USUAL


def test_the_more_a_domain_matters_the_lower_its_thresholds_and_the_shorter_its_times() -> None:
    table = table_of([graded(USUAL, priority) for priority in range(4)])
    assert (np.diff(table.threshold, axis=0) >= 0).all()
    assert (np.diff(table.patience, axis=0) >= 0).all()
    assert (table.threshold[0] < table.threshold[3]).all()


@pytest.mark.parametrize("priority", range(4))
def test_no_priority_trips_on_one_bad_tick(priority: int) -> None:
    table = table_of([graded(USUAL, priority)])
    assert (table.patience[0, table.causes != Cause.STALE] >= 2).all()


def test_a_more_important_domain_never_trips_later() -> None:
    times = trip_times(USUAL)
    of_phases = {cause for cause in Cause if Cause.STALE <= cause <= Cause.DECREASES}
    assert set(times) == of_phases | {Cause.SKILL, Cause.OUTPUT}
    for cause, by_priority in times.items():
        assert list(by_priority) == sorted(by_priority), cause.label
    # Where conditions last for minutes, P0 trips in less than two thirds of the time of P2.
    for cause in (Cause.ERRORS, Cause.BURN):
        assert times[cause][0] < times[cause][2] * 2 / 3

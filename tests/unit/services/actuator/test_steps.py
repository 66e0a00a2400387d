"""A step that the target would refuse is made in parts, one per tick."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.override_issued import OverrideIssued
from services.actuator.kubernetes import STEPS
from services.actuator.target import StepLimits
from tests.service_helpers import APPS
from tests.unit.services.actuator.actuator_helpers import System, present


def test_a_large_step_stops_where_the_target_would_refuse_it() -> None:
    present = np.array([10, 10, 10, 1, 3, 0, 5], np.int32)
    wanted = np.array([80, 1, 12, 40, 1, 7, 0], np.int32)
    assert StepLimits(4, 10).cut(present, wanted).tolist() == [50, 3, 12, 14, 1, 7, 0]


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_every_part_is_admitted_and_the_parts_arrive(present: int, wanted: int) -> None:
    steps = 0
    while present != wanted:
        (after,) = STEPS.cut(np.array([present], np.int32), np.array([wanted], np.int32)).tolist()
        assert after <= 4 * present + 10
        assert 4 * after >= present
        assert abs(wanted - after) < abs(wanted - present)
        present, steps = after, steps + 1
    assert steps <= 12


@pytest.mark.parametrize(("limits", "made"), [(None, 50), (StepLimits(2, 5), 25)])
def test_an_operators_replicas_come_in_parts(limits: StepLimits | None, made: int) -> None:
    system = System(limits=limits)
    system.bus.publish(OverrideIssued(scope=APPS[0], kind="app", replicas=50))
    done = system.apply()
    assert (done.outcomes[0], done.reasons[0], done.replicas[0]) == ("applied", "override", made)
    system.target.apps[APPS[0]] = present(replicas=made, ready=made)
    assert system.apply(2).replicas[0] == 50


def test_one_write_changes_replicas_or_the_size_and_grows_before_it_shrinks() -> None:
    #                 more and larger, more and smaller, fewer and larger, fewer and smaller, larger
    present = np.array([[10, 10, 10, 10, 10], [500] * 5, [512] * 5], np.int32)
    wanted = np.array([[12, 12, 8, 8, 10], [600, 400, 600, 400, 600], [512] * 5], np.int32)
    part = StepLimits(4, 10).part(present, wanted)
    assert part[0].tolist() == [12, 12, 10, 10, 10]
    assert part[1].tolist() == [500, 500, 600, 400, 600]
    assert part[2].tolist() == [512] * 5

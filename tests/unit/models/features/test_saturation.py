"""A wrong declaration is corrected by what pods do, and by nothing else."""

from typing import NamedTuple

import numpy as np
import pytest

from models.cluster import rows
from models.cluster.arrays import F32
from models.features.encode import Encoder
from models.features.saturation import PRIOR, Full, begin, learn_full, pace
from models.features.table import APP
from models.sim.declarations import true_saturation
from models.sim.world import World
from tests.unit.models.control.control_helpers import SPIKE, world_of
from tests.unit.models.features.features_helpers import INVENTORY, encoded, observation

TICK_S, PODS, SECONDS_PER_REQUEST = 10, 10, 0.001


class Plant(NamedTuple):
    """One app of ten pods of one core, whose requests cost a CPU millisecond."""

    truth: float
    """CPU use at which its pods are really full."""
    known: Full

    def serve(
        self,
        rps: float,
        ticks: int = 1,
        *,
        fresh: int = 1,
        errors: float = 0.0,
        pods: int = PODS,
        mean_rps: float | None = None,
        cost: float = 1.0,
        late: bool = False,
        in_flight: int = 0,
    ) -> float:
        """The estimate after some ticks of these requests; full pods answer late.

        `pods` were measured, `in_flight` more are not ready. A request costs `cost` times its
        usual work. `late` answers are those of a callee.
        """
        offered, most = rps * SECONDS_PER_REQUEST * cost, self.truth * PODS
        lost = max(0.0, 1.0 - most / offered) if offered > 0 else 0.0
        sample = np.zeros((rows.SAMPLES, 1), np.float32)
        sample[rows.RPS], sample[rows.ERRORS] = rps, max(lost, errors)
        sample[rows.CPU], sample[rows.PODS] = min(offered, most), pods
        sample[rows.P99] = 2.0 if late or lost > 0.0 else 0.5
        mean = np.array([rps if mean_rps is None else mean_rps], np.float32)
        for _ in range(ticks):
            learn_full(
                self.known, sample, np.array([fresh], np.int8), mean, np.array([1000], np.int32),
                np.array([in_flight], np.int32), np.ones(1, np.float32), pace(TICK_S),
            )  # fmt: skip
        return float(self.known.full_at[0])


def _plant(declared: float, truth: float) -> Plant:
    known = Full(*(np.zeros(1, kind) for kind in "ffffiff"))
    begin(known, np.array([declared], np.float32))
    plant = Plant(truth, known)
    plant.serve(2000.0, ticks=30)
    return plant


def test_an_estimate_begins_at_the_declaration_and_its_doubt() -> None:
    plant = _plant(0.8, 0.8)
    assert plant.known.full_at[0] == pytest.approx(0.8)
    assert plant.known.doubt[0] == pytest.approx(PRIOR, rel=0.01)


def test_pods_are_full_at_their_request_at_the_latest() -> None:
    assert _plant(1.4, 1.0).known.full_at[0] == 1.0


def test_pods_that_lose_requests_below_the_declared_use_are_full() -> None:
    plant = _plant(0.9, 0.6)
    assert plant.serve(8000.0, ticks=18) == pytest.approx(0.6, rel=0.05)
    assert plant.known.doubt[0] < 0.5 * PRIOR


def test_pods_that_are_late_at_a_use_that_they_never_carried_in_time_are_full() -> None:
    plant = _plant(0.9, 0.7)
    plant.serve(6800.0, ticks=30)
    # Too little is lost for the work per request to show it.
    assert plant.serve(7200.0, ticks=18) == pytest.approx(0.7, rel=0.05)


def test_pods_that_are_late_at_a_use_that_they_carried_in_time_wait_for_a_callee() -> None:
    plant = _plant(0.9, 0.9)
    plant.serve(7000.0, ticks=30)
    assert plant.serve(6800.0, ticks=60, late=True) == pytest.approx(0.9)


@pytest.mark.parametrize(("mean_rps", "in_flight"), [(4000.0, 0), (7000.0, 3)])
def test_pods_that_are_late_in_a_surge_or_while_many_start_show_nothing(
    mean_rps: float, in_flight: int
) -> None:
    plant = _plant(0.9, 0.9)
    plant.serve(6800.0, ticks=30)
    after = plant.serve(7000.0, ticks=60, late=True, mean_rps=mean_rps, in_flight=in_flight)
    assert after == pytest.approx(0.9)


def test_an_overload_of_less_than_the_window_is_not_believed() -> None:
    plant = _plant(0.9, 0.6)
    assert plant.serve(8000.0, ticks=5) == pytest.approx(0.9)


def test_what_pods_have_carried_corrects_a_declaration_that_is_too_low() -> None:
    plant = _plant(0.5, 0.9)
    assert plant.serve(8000.0, ticks=6) == pytest.approx(0.8, rel=0.07)


@pytest.mark.parametrize("ticks", [1, 2])
def test_pods_that_were_not_all_counted_for_a_moment_raise_nothing(ticks: int) -> None:
    plant = _plant(0.5, 0.5)
    assert plant.serve(4000.0, ticks, pods=4) == pytest.approx(0.5)
    assert plant.serve(4000.0, ticks=60) == pytest.approx(0.5)


def test_only_the_least_use_of_some_ticks_was_carried() -> None:
    plant = _plant(0.5, 0.9)
    for rps in (8900.0, 6000.0, 8900.0):
        estimate = plant.serve(rps)
    assert 0.5 < estimate <= 0.6


def test_errors_without_lost_work_are_those_of_a_callee() -> None:
    plant = _plant(0.9, 0.9)
    assert plant.serve(6000.0, ticks=60, errors=0.5) == pytest.approx(0.9)


def test_a_callee_that_fails_fast_leaves_the_estimate() -> None:
    plant = _plant(0.9, 0.9)
    # Requests that end early cost less, and are answered in time.
    assert plant.serve(7600.0, ticks=60, errors=0.2, cost=0.85) == pytest.approx(0.9)


def test_a_day_of_room_brings_an_estimate_back_towards_the_declaration() -> None:
    plant = _plant(0.9, 0.6)
    learned = plant.serve(8000.0, ticks=18)
    day = 86_400 // TICK_S
    after = plant.serve(2000.0, ticks=day)
    assert (0.9 - after) / (0.9 - learned) == pytest.approx(np.exp(-1.0), rel=0.01)


def test_an_exporter_that_fades_makes_no_requests_of_full_pods_heavier() -> None:
    plant = _plant(0.9, 0.9)
    plant.serve(8900.0, ticks=12)
    for shown in (5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6):
        plant.serve(8900.0 * shown, mean_rps=8900.0, cost=1.0 / shown)
    assert plant.known.work[0] == pytest.approx(SECONDS_PER_REQUEST, rel=0.01)


def test_requests_of_full_pods_that_became_heavier_are_believed() -> None:
    plant = _plant(0.9, 0.9)
    plant.serve(8900.0, ticks=12)
    plant.serve(8900.0, cost=2.0)
    assert plant.known.work[0] == pytest.approx(SECONDS_PER_REQUEST * 9000 / 8900, rel=0.001)


def test_idle_pods_that_fail_are_not_full() -> None:
    plant = _plant(0.9, 0.3)
    assert plant.serve(8000.0, ticks=60) == pytest.approx(0.9)


def test_missing_samples_change_nothing() -> None:
    plant = _plant(0.9, 0.6)
    before = [field.copy() for field in plant.known]
    plant.serve(8000.0, ticks=60, fresh=0)
    for left, right in zip(before, plant.known, strict=True):
        np.testing.assert_array_equal(left, right)


def test_a_new_declaration_starts_anew() -> None:
    plant = _plant(0.9, 0.6)
    plant.serve(8000.0, ticks=18)
    begin(plant.known, np.array([0.7], np.float32))
    assert plant.known.full_at[0] == pytest.approx(0.7)
    assert plant.known.doubt[0] == PRIOR


def test_features_show_the_estimate_and_its_doubt() -> None:
    features, _ = encoded(observation(np.random.default_rng(1), 1))
    declared = np.minimum(INVENTORY.saturation[0], 1.0)
    np.testing.assert_allclose(features.app[0, :, APP.at("full_at")], declared, rtol=1e-6)
    np.testing.assert_allclose(features.app[0, :, APP.at("doubt")], PRIOR)


def test_estimates_in_a_simulated_spike_come_closer_to_the_truth() -> None:
    world = world_of(SPIKE, seeds=(0, 1, 2))
    encoder, first = Encoder(world.inventory), world.observe()
    memory = encoder.start(first)
    plan = world.hold()
    while world.tick < world.timeline.total_ticks:
        _, memory = encoder.encode_apps(world.observe(), memory)
        world.step(plan)
    learned = memory.doubt < 0.5 * PRIOR
    assert learned.any()
    before, after = _errors(world, memory.declared), _errors(world, memory.full_at)
    assert after[learned].mean() < 0.7 * before[learned].mean()


def _errors(world: World, full_at: F32) -> F32:
    truth = true_saturation(world.population.apps)
    error: F32 = np.abs(np.log(full_at / truth))
    return error

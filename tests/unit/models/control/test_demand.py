"""The load of an app follows its requests, also where its CPU no longer shows it."""

from typing import NamedTuple

import numpy as np
import pytest

from models.cluster import rows
from models.cluster.arrays import F32, I32
from models.cluster.observation import POOL_STATUS, Observation
from models.control.demand import Demand, DemandEstimator, Gains, gains, start_demand, update_demand
from models.control.parameters import Parameters, Parts
from models.features.encode import Encoder
from models.features.saturation import Full, begin, learn_full, pace
from models.features.table import APP
from services._kit.state_codec import flatten
from tests.unit.models.control.control_helpers import SPIKE, world_of

APPS, TICK_S = 3, 10
PODS = 10
SETTLED = 30
"""Ticks after which requests no longer rise."""
FULL = 1.0
"""Saturation at which the CPU shows no further increase."""


class DemandPlant(NamedTuple):
    """Apps of ten pods of one core that are full when they use it, as the features show them."""

    features: F32
    sample: F32
    known: Full
    status: I32
    demand: Demand
    gain: Gains

    @property
    def work(self) -> F32:
        return self.known.work

    def load_after(self, saturation: float, rps: float, ticks: int = 1, **others: float) -> float:
        """The load after some ticks of the same, in pods that are fully used."""
        errors, missing = others.get("errors", 0.0), others.get("missing", 0.0)
        cores = self.sample[rows.PODS] * self.status[0, rows.CPU_REQUEST] / 1000
        self.sample[rows.RPS], self.sample[rows.ERRORS] = rps, errors
        self.sample[rows.CPU] = saturation * cores
        values = {"saturation": saturation, "full_at": 1.0, "rps": rps, "missing": missing}
        for name, value in values.items():
            self.features[:, APP.at(name)] = value
        mean_rps = np.full(APPS, rps / (1.0 + others.get("trend", 0.0)), np.float32)
        fresh = np.full(APPS, 1 - int(missing), np.int8)
        for _ in range(ticks):
            learn_full(
                self.known, self.sample, fresh, mean_rps, self.status[0, rows.CPU_REQUEST],
                np.zeros(APPS, np.int32), np.zeros(APPS, np.float32), pace(TICK_S),
            )  # fmt: skip
            pods, work = self.sample[None, rows.PODS], self.work[None]
            update_demand(self.demand, self.features, pods, work, self.status, self.gain)
        assert (self.demand.load == self.demand.load[0, 0]).all()
        return float(self.demand.load[0, 0])


@pytest.fixture
def plant() -> DemandPlant:
    status = np.zeros((1, rows.STATUS, APPS), np.int32)
    status[:, rows.ACTIVE], status[:, rows.CPU_REQUEST], status[:, rows.READY] = 1, 1000, PODS
    blank = Observation(
        tick=np.zeros(1, np.int32),
        measured=np.zeros((1, rows.SAMPLES, APPS), np.float32),
        missing=np.zeros((1, APPS), np.int8),
        status=status,
        pool=np.zeros((1, 1), POOL_STATUS),
    )
    sample = np.zeros((rows.SAMPLES, APPS), np.float32)
    sample[rows.PODS] = PODS
    known = Full(*(np.zeros(APPS, kind) for kind in "ffffiff"))
    begin(known, np.ones(APPS, np.float32))
    features = np.zeros((1, APP.width, APPS), np.float32)
    return DemandPlant(features, sample, known, status, start_demand(blank), gains(0.35, TICK_S))


def test_with_room_the_load_is_what_the_cpu_shows(plant: DemandPlant) -> None:
    assert plant.load_after(0.5, 1000.0) == pytest.approx(0.5 * PODS)


def test_at_the_limit_twice_the_requests_are_twice_the_load(plant: DemandPlant) -> None:
    before = plant.load_after(0.6, 1000.0, ticks=60)
    after = plant.load_after(FULL, 2000.0, ticks=SETTLED)
    assert after == pytest.approx(2 * before, rel=1e-3)
    assert after > FULL * PODS
    assert plant.load_after(FULL, 4000.0, ticks=SETTLED) == pytest.approx(4 * before, rel=1e-3)


def test_a_rise_is_followed_beyond_samples_that_are_late(plant: DemandPlant) -> None:
    before = plant.load_after(0.3, 1000.0, ticks=60)
    slow, steep = plant.load_after(0.3, 1050.0), plant.load_after(0.36, 1200.0)
    assert slow < 1.05 * before
    assert 1.25 * before < steep < 1.6 * before
    assert plant.load_after(0.36, 1200.0, ticks=SETTLED) == pytest.approx(1.2 * before, rel=0.01)


def test_a_jump_is_followed_by_three_tenths_at_most(plant: DemandPlant) -> None:
    before = plant.load_after(0.2, 1000.0, ticks=60)
    assert plant.load_after(0.8, 4000.0) == pytest.approx(1.3 * 4 * before, rel=1e-3)


@pytest.mark.parametrize("saturation", [0.6, FULL])
def test_a_counter_of_requests_that_reads_zero_makes_no_request_look_expensive(
    plant: DemandPlant, saturation: float
) -> None:
    before = plant.load_after(saturation, 1000.0, ticks=60)
    plant.load_after(saturation, 0.0, ticks=6)
    assert plant.load_after(saturation, 1000.0, ticks=SETTLED) == pytest.approx(before, rel=1e-2)


def test_requests_that_fail_early_do_not_make_work_look_cheap(plant: DemandPlant) -> None:
    before = plant.load_after(0.6, 1000.0, ticks=60)
    after = plant.load_after(0.3, 1000.0, ticks=60, errors=0.5)
    assert after == pytest.approx(before, rel=1e-3)


def test_heavier_requests_are_noticed_at_the_limit_too(plant: DemandPlant) -> None:
    plant.load_after(0.3, 1000.0, ticks=60)
    assert plant.load_after(FULL, 1000.0) >= FULL * PODS


def test_a_small_change_is_filtered_and_a_jump_is_not(plant: DemandPlant) -> None:
    plant.load_after(0.5, 1000.0, ticks=60)
    assert plant.load_after(0.55, 1100.0) < 0.53 * PODS
    assert plant.load_after(0.9, 1800.0) >= 0.9 * PODS


def test_the_load_is_rescaled_when_pods_are_resized(plant: DemandPlant) -> None:
    before = plant.load_after(0.6, 1000.0, ticks=60)
    usual, work = plant.demand.usual.copy(), plant.work.copy()
    plant.status[:, rows.CPU_REQUEST] = 2000
    assert plant.load_after(0.3, 1000.0) == pytest.approx(before / 2, rel=1e-3)
    assert plant.demand.usual == pytest.approx(usual / 2, rel=1e-3)
    assert plant.work == pytest.approx(work, rel=1e-3)
    assert plant.load_after(FULL, 4000.0, ticks=SETTLED) == pytest.approx(2 * before, rel=1e-2)


def test_the_load_is_rescaled_when_pods_turn_out_to_be_full_earlier(plant: DemandPlant) -> None:
    before = plant.load_after(0.4, 1000.0, ticks=60)
    plant.features[:, APP.at("full_at")], plant.features[:, APP.at("saturation")] = 0.5, 0.8
    pods, work = plant.sample[None, rows.PODS], plant.work[None]
    update_demand(plant.demand, plant.features, pods, work, plant.status, plant.gain)
    assert plant.demand.load == pytest.approx(2 * before, rel=1e-3)
    assert plant.demand.usual == pytest.approx(2 * before, rel=1e-3)


def test_a_cpu_request_of_zero_does_not_rescale_the_load(plant: DemandPlant) -> None:
    before = plant.load_after(0.6, 1000.0, ticks=60)
    plant.status[:, rows.CPU_REQUEST] = 0
    assert plant.load_after(0.0, 0.0, missing=1) == before


@pytest.mark.parametrize("rps", [0.0, 1e6])
def test_without_a_valid_sample_cpu_may_raise_the_load_and_nothing_lowers_it(
    plant: DemandPlant, rps: float
) -> None:
    before = plant.load_after(0.6, 1000.0, ticks=60)
    work = plant.work.copy()
    assert plant.load_after(0.0, rps, ticks=60, missing=1) == before
    assert plant.load_after(0.8, rps, missing=1) == pytest.approx(0.8 * PODS)
    assert (plant.work == work).all()


def test_pods_that_have_just_started_do_not_look_like_more_work(plant: DemandPlant) -> None:
    before = plant.load_after(0.6, 1000.0, ticks=60)
    plant.status[:, rows.READY] = 2 * PODS
    assert plant.load_after(0.6, 1000.0) == pytest.approx(before, rel=1e-3)
    # A minute later the window has the new pods and their share of the same work.
    plant.sample[rows.PODS] = 2 * PODS
    assert plant.load_after(0.3, 1000.0) == pytest.approx(before, rel=1e-3)


def test_requests_that_fade_from_a_window_do_not_make_work_look_dear(plant: DemandPlant) -> None:
    plant.load_after(0.6, 1000.0, ticks=60)
    work = plant.work.copy()
    for sixths in range(5, 0, -1):
        plant.load_after(0.6, 1000.0 * sixths / 6, trend=sixths / 6 - 1)
    assert plant.work == pytest.approx(work)


def test_a_surge_becomes_usual_slowly_and_is_forgotten_faster(plant: DemandPlant) -> None:
    plant.load_after(0.4, 1000.0, ticks=60)
    low = float(plant.demand.usual[0, 0])
    high = plant.load_after(0.8, 2000.0, ticks=60)
    risen = float(plant.demand.usual[0, 0])
    assert low < risen < 0.5 * (low + high)
    plant.load_after(0.4, 1000.0, ticks=60)
    assert plant.demand.usual[0, 0] - low < 0.2 * (risen - low)


def test_an_app_without_requests_has_no_load(plant: DemandPlant) -> None:
    plant.load_after(0.5, 1000.0, ticks=10)
    assert plant.load_after(0.0, 0.0) == 0.0
    assert np.isfinite(plant.work).all()


def test_step_with_features_gives_the_same_signals_and_the_encoders_features() -> None:
    world = world_of(SPIKE, seeds=(0, 1))
    inventory = world.inventory
    plain, with_features = (DemandEstimator(inventory, Parameters(), Parts()) for _ in range(2))
    encoder, first = Encoder(inventory), world.observe()
    one, other, memory = plain.start(first), with_features.start(first), encoder.start(first)
    for _ in range(40):
        observation = world.observe()
        expected_signals, one = plain.step(observation, one)
        signals, features, other = with_features.step_with_features(observation, other)
        expected_features, memory = encoder.encode(observation, memory)
        expected = (*expected_signals, *expected_features)
        for found, value in zip((*signals, *features), expected, strict=True):
            assert np.array_equal(found, value)
        for name, kept in flatten(other).items():
            assert np.array_equal(kept, flatten(one)[name])
        world.step(world.hold())

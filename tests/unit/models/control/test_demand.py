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
from models.features.table import APP
from models.sim.apps import declare
from services._kit.state_codec import flatten
from tests.unit.models.control.control_helpers import SPIKE, world_of

APPS, TICK_S = 3, 10
PODS = 10
FULL = 1.0
"""Saturation at which the CPU shows no further increase."""


class DemandPlant(NamedTuple):
    """Apps of ten pods of one core, as the features show them."""

    features: F32
    status: I32
    demand: Demand
    gain: Gains

    def set_features(
        self, saturation: float, rps: float, errors: float = 0.0, missing: int = 0
    ) -> None:
        for name, value in {
            "saturation": saturation,
            "rps": rps,
            "errors": errors,
            "missing": missing,
        }.items():
            self.features[:, APP.at(name)] = value

    def load_after(self, saturation: float, rps: float, ticks: int = 1, **others: float) -> float:
        """The load after some ticks of the same, in pods that are fully used."""
        self.set_features(saturation, rps, others.get("errors", 0.0), int(others.get("missing", 0)))
        for _ in range(ticks):
            update_demand(self.demand, self.features, self.status, self.gain)
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
    features = np.zeros((1, APP.width, APPS), np.float32)
    return DemandPlant(features, status, start_demand(blank), gains(0.35, TICK_S))


def test_with_room_the_load_is_what_the_cpu_shows(plant: DemandPlant) -> None:
    assert plant.load_after(0.5, 1000.0) == pytest.approx(0.5 * PODS)


def test_at_the_limit_twice_the_requests_are_twice_the_load(plant: DemandPlant) -> None:
    before = plant.load_after(0.6, 1000.0, ticks=60)
    after = plant.load_after(FULL, 2000.0)
    assert after == pytest.approx(2 * before, rel=1e-3)
    assert after > FULL * PODS
    assert plant.load_after(FULL, 4000.0) == pytest.approx(4 * before, rel=1e-3)


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
    assert plant.load_after(0.9, 1800.0) == pytest.approx(0.9 * PODS, rel=1e-2)


def test_the_load_is_rescaled_when_pods_are_resized(plant: DemandPlant) -> None:
    before = plant.load_after(0.6, 1000.0, ticks=60)
    usual, cost = plant.demand.usual.copy(), plant.demand.cost.copy()
    plant.status[:, rows.CPU_REQUEST] = 2000
    assert plant.load_after(0.3, 1000.0) == pytest.approx(before / 2, rel=1e-3)
    assert plant.demand.usual == pytest.approx(usual / 2, rel=1e-3)
    assert plant.demand.cost == pytest.approx(cost / 2, rel=1e-3)
    assert plant.load_after(FULL, 4000.0) == pytest.approx(2 * before, rel=1e-2)


def test_a_cpu_request_of_zero_does_not_rescale_the_load(plant: DemandPlant) -> None:
    before = plant.load_after(0.6, 1000.0, ticks=60)
    plant.status[:, rows.CPU_REQUEST] = 0
    assert plant.load_after(0.0, 0.0, missing=1) == before


@pytest.mark.parametrize(("saturation", "rps"), [(0.0, 0.0), (5.0, 1e6)])
def test_a_missing_sample_keeps_the_load(plant: DemandPlant, saturation: float, rps: float) -> None:
    before = plant.load_after(0.6, 1000.0, ticks=60)
    cost = plant.demand.cost.copy()
    assert plant.load_after(saturation, rps, ticks=60, missing=1) == before
    assert (plant.demand.cost == cost).all()


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
    assert np.isfinite(plant.demand.cost).all()


def test_step_with_features_gives_the_same_signals_and_the_encoders_features() -> None:
    world = world_of(SPIKE, seeds=(0, 1))
    inventory = declare(world.population, world.cluster)
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

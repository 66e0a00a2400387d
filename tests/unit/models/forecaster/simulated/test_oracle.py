"""The computed future is what the world plays, and the oracles forecast it."""

import numpy as np
import pytest

from models.cluster import rows
from models.forecaster.port import HIGH, HORIZONS_MIN, LOW, MEDIAN
from models.forecaster.simulated.catalogue import noisy_of, oracle_of
from models.forecaster.simulated.future import future_of
from models.forecaster.simulated.oracle import NOISE, by_domain
from models.sim.config.events import Inventory, Payload, Target, Traffic
from models.sim.config.scenario import Scenario
from models.sim.state import PAYLOAD, SAMPLE_RING
from models.sim.world import World
from tests.unit.models.forecaster.observations import PER_MINUTE, POPULATION, world_of

LEAF = int(np.setdiff1d(np.flatnonzero(POPULATION.apps.domain == 0), POPULATION.calls.caller)[0])
"""A payments app that calls nobody and gets no retries: it may appear without pods."""
SCENARIO = Scenario(
    name="all-kinds",
    shows="Everything that changes what arrives.",
    start="Mon 03:00",
    length_minutes=12,
    warmup_minutes=2,
    events=(
        Traffic(
            name="rise", target=Target(domains=("payments",)), at_minute=4, jitter_minutes=1,
            factor=1.3, ramp_minutes=1, hold_minutes=3, decay_minutes=1,
        ),
        Payload(
            name="heavier", target=Target(domains=("merchant",)), at_minute=2, factor=1.2,
            hold_minutes=4,
        ),
        Inventory(name="new", target=Target(apps=(LEAF,)), at_minute=5, change="appear"),
        Inventory(name="gone", target=Target(apps=(39,)), at_minute=6, change="vanish"),
        Inventory(
            name="moved", target=Target(apps=(30,)), at_minute=7, change="move",
            to_domain="merchant",
        ),
    ),
)  # fmt: skip


def _simulate(world: World) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """Requests per second, payload and failing share of every tick, with pods to spare."""
    plan = world.hold()
    plan.replicas[:] = np.ceil(1.3 * world.state.status[:, rows.REPLICAS])
    arrived, heavier, failing = [], [], []
    while world.tick < world.timeline.total_ticks:
        tick = world.tick
        world.step(plan)
        arrived.append(world.state.samples[:, tick % SAMPLE_RING, rows.RPS].copy())
        heavier.append(world.state.flow[:, PAYLOAD].copy())
        failing.append(world.state.samples[:, tick % SAMPLE_RING, rows.ERRORS].copy())
    return arrived, heavier, failing


def test_the_computed_future_matches_the_simulated_traffic() -> None:
    world = world_of(SCENARIO)
    future = future_of(world, 1)
    arrived, heavier, failing = (np.stack(found, axis=1) for found in _simulate(world))
    ticks = arrived.shape[1]
    np.testing.assert_allclose(future.payload[:, :ticks], heavier, rtol=1e-5)
    expected = future.rps[:, :ticks]
    silent = (expected == 0).all(axis=1)
    assert (arrived.sum(axis=1)[silent] == 0).all()
    # Failed requests are retried, which the computed future leaves out.
    well = (failing < 0.01).all(axis=1) & ~silent
    assert well.mean() > 0.7
    by_app = arrived.sum(axis=1)[well] / expected.sum(axis=1)[well]
    assert by_app == pytest.approx(1.0, abs=0.05)
    by_tick = (arrived * well[:, None]).sum(axis=2) / (expected * well[:, None]).sum(axis=2)
    assert by_tick == pytest.approx(1.0, abs=0.01)
    np.testing.assert_array_equal(future.domain[:, ticks - 1], world.state.status[:, rows.DOMAIN])
    np.testing.assert_array_equal(future.active[:, ticks - 1], world.state.status[:, rows.ACTIVE])


def test_minutes_of_the_future_are_means_of_its_ticks() -> None:
    world = world_of(SCENARIO)
    by_tick, by_minute = future_of(world, 1).rps, future_of(world, PER_MINUTE).rps
    environments, minutes, apps = by_minute.shape
    means = by_tick.reshape(environments, minutes, PER_MINUTE, apps).mean(axis=2)
    np.testing.assert_allclose(by_minute, means, rtol=1e-4, atol=1e-4)


def test_the_computed_future_does_not_depend_on_the_current_tick() -> None:
    world = world_of(SCENARIO)
    before = future_of(world, PER_MINUTE)
    _simulate(world)
    for first, second in zip(before[1:], future_of(world, PER_MINUTE)[1:], strict=True):
        np.testing.assert_array_equal(first, second)


def test_every_quantile_of_the_oracle_is_the_true_value() -> None:
    world = world_of(SCENARIO)
    truth = future_of(world, PER_MINUTE)
    domains, oracle = by_domain(truth, world.layout.domains), oracle_of(world)
    observation = world.observe()
    predicted, _ = oracle.step(observation, oracle.start(observation))
    for index, horizon in enumerate(HORIZONS_MIN):
        for quantile in (LOW, MEDIAN, HIGH):
            np.testing.assert_array_equal(
                predicted.domain[:, :, index, quantile], domains[:, horizon - 1]
            )
        assert predicted.app is not None
        assert predicted.app_peak is not None
        np.testing.assert_array_equal(predicted.app[:, :, index, MEDIAN], truth.rps[:, horizon - 1])
        np.testing.assert_array_equal(
            predicted.app_peak[:, :, index], truth.rps[:, :horizon].max(axis=1)
        )


def test_the_noisy_oracle_errs_more_the_further_it_looks() -> None:
    world = world_of("calm", tuple(range(40)))
    oracle, noisy, observation = oracle_of(world), noisy_of(world), world.observe()
    truth, predicted = oracle.step(observation, None)[0], noisy.step(observation, None)[0]
    errors = np.log(predicted.domain[..., MEDIAN] / truth.domain[..., MEDIAN]).std(axis=(0, 1))
    assert errors == pytest.approx(NOISE, rel=0.2)
    inside = (predicted.domain[..., LOW] <= truth.domain[..., LOW]) & (
        truth.domain[..., HIGH] <= predicted.domain[..., HIGH]
    )
    assert 0.7 < inside.mean() < 0.9

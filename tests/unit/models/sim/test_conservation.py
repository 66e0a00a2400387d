"""Requests are conserved: what arrives is served, fails or waits."""

from functools import cache

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F64
from models.sim.accounting import ARRIVED, FAILED, SERVED
from models.sim.config.events import Payload, Target, Traffic
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.population.generate import generate
from models.sim.state import BACKLOG
from models.sim.world import World
from models.validate.audit import flow_residuals
from models.validate.worlds import still_scenario

MINUTES = 8
OVERLOAD = (
    Traffic(
        name="spike",
        target=Target(domains=("payments", "fraud", "merchant")),
        factor=4,
        at_minute=1,
        hold_minutes=4,
    ),
    Payload(name="slow", target=Target(domains=("data",)), factor=5, at_minute=2, hold_minutes=3),
)
FLOAT32_ERROR = 1e-5
"""Rows over apps are float32."""


@cache
def start() -> World:
    cluster = with_apps(load_sim_cluster(), 155)
    return World(cluster, still_scenario(OVERLOAD), [3, 4], generate(cluster))


def test_every_request_of_every_app_is_served_fails_or_waits() -> None:
    world = start()
    # Restored in the end, because the tests share one world.
    snapshot = world.save()
    for tick in range(6 * MINUTES):
        backlog = world.state.flow[:, BACKLOG].astype(np.float64)
        requests = world.accounts.minute_requests.astype(np.float64)
        world.step(world.hold())
        if (tick + 1) % 6 == 0:
            continue  # the minute is closed and its sums are zero
        assert flow_residuals(world, backlog, requests).max() < FLOAT32_ERROR
    assert world.accounts.domains[:, :, FAILED].sum() > 0, "nothing was overloaded"
    world.restore(snapshot)


def test_the_domains_sums_balance_over_a_whole_run() -> None:
    world = start()
    snapshot = world.save()
    waited_most = 0.0
    before = _backlog(world)
    for _ in range(6 * MINUTES):
        world.step(world.hold())
        waited_most = max(waited_most, float(_backlog(world).sum()))
    flows = world.accounts.domains
    came = flows[:, :, ARRIVED] + before
    gone = flows[:, :, SERVED] + flows[:, :, FAILED] + _backlog(world)
    assert waited_most > 0
    np.testing.assert_allclose(gone, came, rtol=FLOAT32_ERROR)
    world.restore(snapshot)


def _backlog(world: World) -> F64:
    """[E, D] requests that wait."""
    domains = world.layout.domains
    return np.array(
        [
            np.bincount(status[rows.DOMAIN], flow[BACKLOG], domains)
            for status, flow in zip(world.state.status, world.state.flow, strict=True)
        ]
    )

"""What Soldiers report is what the features say of their domains."""

import numpy as np
import pytest

from models.cluster.plan import empty_plan
from models.control.budget import no_directive
from models.control.demand import DemandEstimator
from models.control.parameters import Parameters, Parts
from models.control.report import Report
from models.control.soldiers import Soldiers
from models.features.encode import Encoder
from models.features.normalise import Features
from models.features.table import DOMAIN as DOMAIN_LEVEL
from models.sim.apps import declare
from models.sim.world import World
from tests.unit.models.control.control_helpers import SPIKE, world_of


@pytest.fixture(scope="module")
def reported() -> tuple[Report, Features, World]:
    """After five minutes in which nothing was changed and the traffic of payments rose."""
    world = world_of(SPIKE, seeds=(0, 1))
    inventory = declare(world.population, world.cluster)
    sensing, soldiers = (
        DemandEstimator(inventory, Parameters(), Parts()),
        Soldiers(inventory, Parameters(), Parts()),
    )
    encoder, first = Encoder(inventory), world.observe()
    features_memory, sensing_memory = encoder.start(first), sensing.start(first)
    memory, plan = soldiers.start(first.status), empty_plan(2, 40, world.layout.pools)
    directive = no_directive(2, inventory.priority.size, world.layout.pools)
    while True:
        seen = world.observe()
        features, features_memory = encoder.encode(seen, features_memory)
        sensed, sensing_memory = sensing.step(seen, sensing_memory)
        report = soldiers.step(seen.tick, seen.status, sensed, directive, memory, plan)
        if world.tick == 6 * 6:
            return report, features, world
        world.step(plan)


def test_requests_are_those_of_the_features(reported: tuple[Report, Features, World]) -> None:
    report, features, _ = reported
    assert report.rps == pytest.approx(features.domain[..., DOMAIN_LEVEL.at("rps")], rel=1e-5)
    assert (report.rps > 0).all()


def test_the_share_of_apps_at_risk_is_that_of_the_features(
    reported: tuple[Report, Features, World],
) -> None:
    report, features, _ = reported
    share = report.at_risk / report.apps
    assert share == pytest.approx(features.domain[..., DOMAIN_LEVEL.at("at_risk")], rel=1e-5)
    assert share.max() > 0


def test_what_is_held_is_that_of_the_features(reported: tuple[Report, Features, World]) -> None:
    report, features, world = reported
    cores = world.observe().pool["ready"] @ declare(world.population, world.cluster).pool_cpu
    expected = features.domain[..., DOMAIN_LEVEL.at("held_cpu")] * cores[:, None]
    assert report.held == pytest.approx(expected, rel=0.02)


def test_more_is_kept_than_is_essential_and_more_is_essential_than_there_is_work(
    reported: tuple[Report, Features, World],
) -> None:
    report, _, _ = reported
    assert (report.kept >= report.essential).all()
    assert (report.essential > report.work).all()
    assert np.isfinite(np.array(report)).all()

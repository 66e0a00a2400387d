"""The sums that Soldiers report agree with the features of their domains."""

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
from models.sim.world import World
from tests.unit.models.control.control_helpers import SPIKE, world_of


@pytest.fixture(scope="module")
def reported() -> tuple[Report, Features, World]:
    """After five minutes in which nothing was changed and the traffic of payments rose."""
    world = world_of(SPIKE, seeds=(0, 1))
    inventory = world.inventory
    estimator, soldiers = (
        DemandEstimator(inventory, Parameters(), Parts()),
        Soldiers(inventory, Parameters(), Parts()),
    )
    encoder, first = Encoder(inventory), world.observe()
    feature_state, estimator_state = encoder.start(first), estimator.start(first)
    soldiers_state, plan = soldiers.start(first.status), empty_plan(2, 40, world.layout.pools)
    directive = no_directive(2, inventory.priority.size, world.layout.pools)
    while True:
        observation = world.observe()
        features, feature_state = encoder.encode(observation, feature_state)
        signals, estimator_state = estimator.step(observation, estimator_state)
        report = soldiers.step(
            observation.tick, observation.status, signals, directive, soldiers_state, plan
        )
        if world.tick == 6 * 6:
            return report, features, world
        world.step(plan)


def test_reported_requests_equal_the_features(reported: tuple[Report, Features, World]) -> None:
    report, features, _ = reported
    assert report.rps == pytest.approx(features.domain[..., DOMAIN_LEVEL.at("rps")], rel=1e-5)
    assert (report.rps > 0).all()


def test_the_reported_share_of_apps_at_risk_equals_the_features(
    reported: tuple[Report, Features, World],
) -> None:
    report, features, _ = reported
    share = report.at_risk / report.apps
    assert share == pytest.approx(features.domain[..., DOMAIN_LEVEL.at("at_risk")], rel=1e-5)
    assert share.max() > 0


def test_reported_holdings_equal_the_features(reported: tuple[Report, Features, World]) -> None:
    report, features, world = reported
    cores = world.observe().pool["ready"] @ world.inventory.pool_cpu
    expected = features.domain[..., DOMAIN_LEVEL.at("held_cpu")] * cores[:, None]
    assert report.held == pytest.approx(expected, rel=0.02)


def test_kept_exceeds_essential_and_essential_exceeds_work(
    reported: tuple[Report, Features, World],
) -> None:
    report, _, _ = reported
    assert (report.kept >= report.essential).all()
    assert (report.essential > report.work).all()
    assert np.isfinite(np.array(report)).all()

"""Recorded frames are judged as the service that would serve the policy sees them."""

import numpy as np
import pytest

from models.control.tuned import tuned_parameters
from models.policies.features import reference_of
from models.registry.drift import Reference, summarised
from models.registry.load import Artefact, verified
from schemas.domain_observed import DomainObserved
from schemas.fields import Event
from services._kit.clock import ManualClock
from services._kit.handler import Service
from services._kit.memory import MemoryBus
from services.admin.frames import LEAST_MINUTES, _of_commander, _of_soldiers, drift_of
from services.aggregator.decide import AggregatorHandler
from tests.planted_models import (
    TRUST,
    commander_files,
    commander_network,
    features,
    soldier_files,
    soldier_network,
)
from tests.service_helpers import CLUSTER, declared, granted, planned, pools, sampled
from tests.unit.services.commander.commander_helpers import forecast

MINUTES = 40


def of_commander(minutes: int = MINUTES) -> list[Event]:
    events: list[Event] = []
    for tick in range(0, minutes * 6, 6):
        for domain in CLUSTER.domain_names:
            events += [planned(domain, tick), forecast(domain, tick, growth=1.0 + tick / 500)]
        events += pools(tick)
    # As topics are read: one after the other.
    return sorted(events, key=lambda one: type(one).__name__)


def of_soldiers(minutes: int = MINUTES) -> list[Event]:
    bus = MemoryBus(ManualClock(1000.0))
    bus.add(lambda: Service(AggregatorHandler(CLUSTER, tuned_parameters(), 2.0)))
    apps = [f"data-{number:04}" for number in range(1, 6)]
    declarations = [declared(app, domain="data") for app in apps]
    bus.publish(*declarations, *pools(0))
    for tick in range(0, minutes * 6, 6):
        bus.advance(60.0)
        bus.publish(sampled(tick, 0.4, domain="data", apps=apps))
        bus.run()
    frames = bus.events(DomainObserved)
    assert len(frames) == minutes
    budgets = [granted(tick, domain="data") for tick in range(0, minutes * 6, 6)]
    return [*budgets, *declarations, *frames]


def artefact(kind: str, spread: float) -> Artefact:
    files = (
        commander_files(commander_network(), extra=features("commander-policy", spread=spread))
        if kind == "commander"
        else soldier_files(soldier_network(), extra=features("soldier-policy", spread=spread))
    )
    return verified(files, TRUST, "planted")


@pytest.mark.parametrize("kind", ["commander", "soldier"])
def test_frames_are_compared_with_training_once_there_are_enough(kind: str) -> None:
    make = of_commander if kind == "commander" else of_soldiers
    for spread, expected in ((0.0, 1.0), (1.0, 0.0)):
        one = artefact(kind, spread)
        reference = reference_of(one)
        assert reference is not None
        found = drift_of(make(), CLUSTER, one, reference)
        assert found is not None
        assert set(found) == {*reference.names}
        assert max(found.values()) == expected
        assert drift_of(make(LEAST_MINUTES - 1), CLUSTER, one, reference) is None


def test_every_recorded_minute_counts_once_with_what_was_recorded() -> None:
    (minutes,) = _of_commander(of_commander(), CLUSTER)
    assert len(minutes) == MINUTES
    growth = [float(one["domain.mid_30min"].mean()) for one in minutes]
    assert np.all(np.diff(growth) > 0)
    by_domain = dict(zip(CLUSTER.domain_names, _of_soldiers(of_soldiers(), CLUSTER), strict=True))
    assert {name: len(found) for name, found in by_domain.items() if found} == {"data": MINUTES}
    assert all(one["member.rps"].size == 5 for one in by_domain["data"])


def test_what_a_policy_was_trained_on_has_not_drifted() -> None:
    (minutes,) = _of_commander(of_commander(), CLUSTER)
    run = {name: np.stack([one[name] for one in minutes]) for name in minutes[0]}
    reference = Reference("v", summarised([run]))
    found = drift_of(of_commander(), CLUSTER, artefact("commander", 0.0), reference)
    assert found is not None
    assert set(found.values()) == {0.0}

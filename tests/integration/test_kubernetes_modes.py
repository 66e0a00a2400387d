"""Aggregator, Soldier and actuator on a memory bus, writing to a real API server: what a mode
means there. In preview nothing is written."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from models.control.parameters import Parts
from models.control.tuned import tuned_parameters
from schemas.fields import Mode
from schemas.scale_applied import ScaleApplied
from services._kit.clock import ManualClock
from services._kit.handler import Service
from services._kit.memory import MemoryBus
from services.actuator.decide import ActuatorHandler
from services.actuator.settings import Modes
from services.aggregator.decide import AggregatorHandler
from services.lab import controlplane
from services.lab.controlplane import Lab
from services.soldier.decide import SoldierHandler
from tests.integration.lab_helpers import Cluster
from tests.kubernetes_helpers import autoscaler, deployment, running_loop
from tests.service_helpers import (
    CLUSTER,
    DOMAIN,
    REPLICAS,
    declared,
    granted,
    heartbeat,
    pools,
    sampled,
)

_GRACE_S = 2.0
_HOT = 0.79
_TICKS = 3


class System:
    """The services, and four Deployments of which two are ours."""

    def __init__(self, cluster: Cluster, mode: Mode) -> None:
        self.cluster, here = cluster, cluster.namespace
        self.ours = ["app-0001", "app-0002"]
        self.others = ["foreign-0003", "rival-0004"]
        names = [*self.ours, *self.others]
        for name in names:
            manifest = deployment(name, REPLICAS, domain=DOMAIN, managed="foreign" not in name)
            (container,) = manifest["spec"]["template"]["spec"]["containers"]
            container["resources"]["requests"] = {"cpu": "1", "memory": "2Gi"}
            cluster.create(manifest)
        cluster.create(autoscaler("rival", "rival-0004"))
        self.apps = tuple(f"{here}/{name}" for name in names)
        self.bus = MemoryBus(ManualClock(1000.0))
        parameters, target = tuned_parameters(), cluster.target()
        self.bus.add(lambda: Service(AggregatorHandler(CLUSTER, parameters, _GRACE_S)))
        self.bus.add(
            lambda: Service(
                SoldierHandler(CLUSTER, parameters, _GRACE_S, parts=Parts(vertical=False))
            )
        )
        handler = ActuatorHandler(CLUSTER, Modes(cluster=mode), _GRACE_S, 60.0)
        self.bus.add(lambda: Service(handler, target))
        self.bus.publish(*(declared(app) for app in self.apps), *pools(0), heartbeat(0))

    def play(self) -> list[ScaleApplied]:
        """Three hot ticks."""
        for tick in range(_TICKS):
            self.bus.publish(sampled(tick, use=_HOT, apps=list(self.apps)))
            # Not `run`: the connections belong to one loop.
            self.cluster.run(self.bus.settle())
            if tick == 0:
                self.bus.publish(granted(0))
        return self.bus.events(ScaleApplied)

    def changes(self, names: list[str]) -> int:
        return sum(self.cluster.changes(name) for name in names)


def reasons(events: list[ScaleApplied]) -> dict[str, set[str]]:
    """Reasons of holds by app, without its namespace."""
    found: dict[str, set[str]] = {}
    for event in events:
        rows = zip(event.apps, event.outcomes, event.reasons, strict=True)
        for app, outcome, reason in rows:
            if outcome == "held":
                found.setdefault(app.rpartition("/")[2], set()).add(reason)
    return found


@pytest.fixture
def cluster(lab: Lab, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    lab = controlplane.restart(Path(lab.home))
    with running_loop() as run:
        made = Cluster(lab, run, f"mode-{abs(hash(request.node.name)) % 10_000}")
        yield made
        made.close()


def test_auto_changes_what_is_ours_and_says_why_not_the_rest(cluster: Cluster) -> None:
    system = System(cluster, "auto")
    held = reasons(system.play())
    assert system.changes(system.ours) > 0
    assert system.changes(system.others) == 0
    assert held["foreign-0003"] == {"hold-unmanaged"}
    assert held["rival-0004"] == {"hold-second-owner: HorizontalPodAutoscaler rival"}


@pytest.mark.parametrize("mode", ["preview", "off"])
def test_nothing_is_written_in_preview_and_off(cluster: Cluster, mode: Mode) -> None:
    system = System(cluster, mode)
    held = reasons(system.play())
    assert system.changes([*system.ours, *system.others]) == 0
    said = {"off": "off", "preview": "preview: the API server would take the change"}[mode]
    assert all(held[name] == {said} for name in system.ours)
    patched = [one for one in cluster.audit() if one.object_ref.get("subresource") == "scale"]
    assert [one for one in patched if "dryRun=All" not in one.request_uri] == []
    # The journal has the dry runs of what is ours, and of nothing else.
    tried = {one.object_ref["name"] for one in patched}
    assert tried == (set(system.ours) if mode == "preview" else set())
    assert {one.response_status.get("code", 200) for one in patched} <= {200}

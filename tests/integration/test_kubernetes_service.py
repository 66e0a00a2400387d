"""The whole actuator service between a real Kafka and a real API server, while the service, the
broker and the API server are killed: no change is lost, doubled, made elsewhere, or in preview.

The journal is the API server's own: its audit log, and the generation that it counts up with each
change of a spec. `make lab` plays the long form.
"""

import logging
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from models.control.tuned import tuned_parameters
from schemas.domain_observed import DomainObserved
from schemas.fields import Event
from schemas.scale_applied import ScaleApplied
from services._kit.clock import ManualClock
from services._kit.handler import Service
from services._kit.memory import MemoryBus
from services.aggregator.decide import AggregatorHandler
from services.devcluster.connect import Running
from services.lab import controlplane
from services.lab.controlplane import Lab, kubeconfig
from tests.integration.lab_helpers import Cluster, Kubectl
from tests.integration.service_helpers import ANSWER_S, Bus, Killer, Published, ServiceProcess
from tests.kubernetes_helpers import autoscaler, deployment, running_loop
from tests.service_helpers import (
    CLUSTER,
    declared,
    granted,
    heartbeat,
    planned,
    pools,
    sampled,
    time_of,
)

log = logging.getLogger(__name__)

_CHANGES: Final = int(os.environ.get("HIRL_LAB_CHANGES", "50"))
_APPS: Final = 10
_AUTO, _PREVIEW = "payments", "fraud"
_UNOWNED: Final = ("foreign-9001", "rival-9002")
_ACCOUNT: Final = "/api/v1/namespaces/hirl/serviceaccounts/actuator/token"
_SPEED: Final = 30
_TICK_S: Final = 10 / _SPEED
_KILLS: Final = ("service", "API server", "broker")
_FIRST: Final = 4


class Domain:
    """One domain's workloads, and the events that other services would publish about it."""

    def __init__(self, cluster: Cluster, name: str, short: list[str]) -> None:
        self.name, self.short = name, short
        self.apps = [f"{cluster.namespace}/{one}" for one in short]
        self.replicas = dict.fromkeys(self.apps, _FIRST)
        self._frame = self._first_frame()

    def events(self, tick: int) -> list[Event]:
        """A heartbeat, a budget, a frame, and a plan that raises every app by one."""
        count, now = len(self.apps), [self.replicas[app] for app in self.apps]
        pods = replace(self._frame.pods, replicas=now, ready=now)
        stamp: dict[str, Any] = {"tick": tick, "time": time_of(tick)}
        plan = replace(
            planned(self.name, tick),
            decision_id=f"{self.name}/{tick}/1/heuristic/2",
            apps=self.apps,
            replicas=[one + 1 for one in now],
            replicas_before=now,
            cpu_request=[250] * count,
            memory_request=[512] * count,
            reasons=["scale-out"] * count,
        )
        return [
            heartbeat(tick, scope=self.name),
            granted(tick, 100_000.0, domain=self.name),
            replace(self._frame, pods=pods, **stamp),
            plan,
        ]

    def declarations(self) -> list[Event]:
        return [declared(app, domain=self.name, max_replicas=5000) for app in self.apps]

    def _first_frame(self) -> DomainObserved:
        bus, count = MemoryBus(ManualClock(1000.0)), len(self.apps)
        bus.add(lambda: Service(AggregatorHandler(CLUSTER, tuned_parameters(), None)))
        sizes: dict[str, Any] = {"cpu_request": [250] * count, "memory_request": [512] * count}
        bus.publish(*self.declarations(), *pools(0))
        bus.publish(sampled(0, domain=self.name, apps=self.apps, **sizes))
        bus.run()
        return bus.events(DomainObserved)[-1]


class Play:
    """Ticks of both domains, one after another."""

    def __init__(self, domains: list[Domain], bus: Bus, found: Published, killer: Killer) -> None:
        self._domains, self._bus, self._found, self._killer = domains, bus, found, killer
        self.outcomes: dict[tuple[str, int], list[ScaleApplied]] = {}
        self.tick = 0

    def run(self, changes: int) -> None:
        """Until so many changes are made; every other tick something is killed."""
        for domain in self._domains:
            self._bus.publish(*domain.declarations())
        kills = cycle(_KILLS)
        while self.made() < changes:
            began = time.monotonic()
            self.tick += 1
            for domain in self._domains:
                self._bus.publish(*domain.events(self.tick))
            if self.tick % 2 == 0:
                self._killer.kill(next(kills))
            self._wait()
            time.sleep(max(0.0, began + _TICK_S - time.monotonic()))
        self._bus.flush()

    def made(self) -> int:
        return sum(self.applied().values())

    def applied(self) -> Counter[str]:
        """Changes that the service says it made, by app."""
        return Counter(
            app
            for events in self.outcomes.values()
            for event in events
            for app, outcome in zip(event.apps, event.outcomes, strict=True)
            if outcome == "applied"
        )

    def _wait(self) -> None:
        deadline = time.monotonic() + ANSWER_S
        wanted = [(domain.name, self.tick) for domain in self._domains]
        while not all(key in self.outcomes for key in wanted):
            self._killer.service.check()
            assert time.monotonic() < deadline, f"tick {self.tick}: {sorted(self.outcomes)[-4:]}"
            self._found.poll()
            for event in self._found.events:
                assert isinstance(event, ScaleApplied)
                self.outcomes.setdefault((event.domain, event.tick), []).append(event)
                self._take(event)
            self._found.events.clear()

    def _take(self, event: ScaleApplied) -> None:
        (domain,) = (one for one in self._domains if one.name == event.domain)
        rows = zip(event.apps, event.outcomes, event.replicas, strict=True)
        domain.replicas |= {app: now for app, outcome, now in rows if outcome == "applied"}


@pytest.fixture
def cluster(lab: Lab) -> Iterator[Cluster]:
    lab = controlplane.restart(Path(lab.home))
    Kubectl(lab.kubeconfig)("apply", "-k", "infra/k8s/overlays/kubernetes")
    with running_loop() as run:
        made = Cluster(lab, run, "served")
        yield made
        made.close()


@pytest.fixture
def played(
    cluster: Cluster, start_kafka: Callable[..., Running], tmp_path: Path
) -> Iterator[tuple[Play, Killer]]:
    owned = [f"app-{number:04d}" for number in range(_APPS)]
    tried = [f"tried-{number:04d}" for number in range(2)]
    for name in (*owned, *_UNOWNED):
        cluster.create(deployment(name, _FIRST, domain=_AUTO, managed="foreign" not in name))
    for name in tried:
        cluster.create(deployment(name, _FIRST, domain=_PREVIEW))
    cluster.create(autoscaler("rival", "rival-9002"))
    kafka = start_kafka("killed")
    token = cluster.post(_ACCOUNT, {"spec": {}})["status"]["token"]
    settings = {
        "HIRL_SPEED": str(_SPEED),
        "HIRL_ACTUATOR_TARGET_KIND": "kubernetes",
        "HIRL_ACTUATOR_KUBECONFIG": str(kubeconfig(cluster.lab, token, tmp_path / "config")),
        "HIRL_ACTUATOR_MODE": "auto",
        "HIRL_ACTUATOR_PREVIEW_DOMAINS": _PREVIEW,
    }
    service = ServiceProcess("actuator", kafka, tmp_path / "log", settings)
    bus, found = Bus(kafka), Published(kafka, ScaleApplied)
    killer = Killer(service, cluster.lab, random.Random(7))
    domains = [Domain(cluster, _AUTO, [*owned, *_UNOWNED]), Domain(cluster, _PREVIEW, tried)]
    try:
        service.start()
        yield Play(domains, bus, found, killer), killer
    finally:
        service.stop()
        bus.close()
        found.close()


def test_no_change_is_lost_doubled_made_elsewhere_or_in_preview(
    cluster: Cluster, played: tuple[Play, Killer]
) -> None:
    play, killer = played
    play.run(_CHANGES)
    cluster.lab = killer.lab
    said = {app.rpartition("/")[2]: count for app, count in play.applied().items()}
    stored = {
        name: cluster.changes(name)
        for name in (*(f"app-{number:04d}" for number in range(_APPS)), *_UNOWNED)
    }
    patches = [one for one in cluster.audit() if one.object_ref.get("subresource") == "scale"]
    dry = [one for one in patches if "dryRun=All" in one.request_uri]
    wet = [one for one in patches if "dryRun=All" not in one.request_uri]
    made = Counter(
        (one.audit_id, one.object_ref["name"])
        for one in wet
        if one.stage == "ResponseComplete" and one.response_status.get("code") == 200
    )

    # Each plan has one outcome, whoever died.
    assert {len(events) for events in play.outcomes.values()} == {1}
    assert len(play.outcomes) == 2 * play.tick
    # Lost: said to be made, and not stored. Doubled: stored more often than said.
    assert {name: count for name, count in stored.items() if count} == said
    assert max(made.values()) == 1
    assert not {one.object_ref["name"] for one in wet} & set(_UNOWNED)
    # Of the domain in preview the journal has dry runs, and nothing else.
    tried = {one.object_ref["name"] for one in dry}
    assert tried == {"tried-0000", "tried-0001"}
    assert not {one.object_ref["name"] for one in wet} & tried
    assert [cluster.changes(name) for name in tried] == [0, 0]
    assert set(killer.killed) == set(_KILLS)
    held = Counter(
        reason.partition(":")[0]
        for events in play.outcomes.values()
        for event in events
        for outcome, reason in zip(event.outcomes, event.reasons, strict=True)
        if outcome == "held" and event.domain == _AUTO
    )
    log.info(
        "%d changes in %d ticks, killed: %s; held: %s; 0 lost, 0 doubled, 0 unowned, 0 in preview "
        "of %d dry runs", play.made(), play.tick, dict(killer.killed), dict(held), len(dry),
    )  # fmt: skip

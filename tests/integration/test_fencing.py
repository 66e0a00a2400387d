"""A process that was paused until another one took over changes nothing when it goes on.

`FENCING_ROUNDS` says how often each service is paused.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from msgspec.structs import replace

from models.control.breaker.limits import GRADES
from models.control.tuned import tuned_parameters
from schemas.app_declared import AppDeclared
from schemas.breaker_changed import BreakerChanged
from schemas.codec import encode
from schemas.domain_observed import DomainObserved, Pods
from schemas.fields import Event
from schemas.scale_planned import ScalePlanned
from schemas.topics import key_of, state_topic
from services._kit.clock import ManualClock
from services._kit.handler import Handler, Service
from services._kit.memory import MemoryBus
from services._kit.settings import load
from services.aggregator.decide import AggregatorHandler
from services.breaker.decide import BreakerHandler
from services.breaker.settings import Settings as BreakerSettings
from services.devcluster.connect import Running
from services.soldier.decide import SoldierHandler
from tests.kit_example_helpers import Example, ExampleSettings, granted, sampled
from tests.kit_kafka_helpers import ROOT, TIMEOUT_SECONDS, make_topics, read_all, read_states, send
from tests.service_helpers import APPS, CLUSTER, declared, pools, time_of
from tests.service_helpers import granted as budget
from tests.service_helpers import sampled as batch

ROUNDS = int(os.environ.get("FENCING_ROUNDS", "2"))
NAMES = ("0", "1")
EVERYTHING = list(range(8))
GRACE_S = 4.0
"""For a budget: a service is woken after it, and goes on without."""
STALE_S = 10.0
"""Without a frame, until a breaker opens."""


class Pair:
    """Two processes of a service that share its partitions."""

    def __init__(
        self, kafka: Running, folder: Path, handler: Handler[Any], environment: dict[str, str]
    ) -> None:
        self.handler = handler
        self._answer: type[BreakerChanged | ScalePlanned] = (
            ScalePlanned if handler.name == "soldier" else BreakerChanged
        )
        connect = {"HIRL_KAFKA_BOOTSTRAP": kafka.bootstrap}
        self._settings, _ = load(handler.name, ExampleSettings, connect)
        asyncio.run(make_topics(self._settings, state_topic(handler.name)))
        self._log = folder / "log"
        self._output: IO[bytes] = self._log.open("ab")
        self._environment = {
            **{name: text for name, text in os.environ.items() if name[:5] != "HIRL_"},
            **connect,
            **environment,
        }
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, instance: str) -> None:
        module = self._environment.get("MODULE", f"services.{self.handler.name}")
        self._processes[instance] = subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=ROOT,
            stderr=self._output,
            env=self._environment | {"HIRL_INSTANCE": instance},
        )

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()
        self._output.close()

    def publish(self, *events: Event) -> None:
        records = [record for event in events for record in encode(event, "test")]
        asyncio.run(send(self._settings, records))

    def pause(self, instance: str) -> None:
        """Stop a process until the other one has all partitions."""
        other = NAMES[1 - NAMES.index(instance)]
        self._processes[instance].send_signal(signal.SIGSTOP)
        self.until(lambda: self._partitions(other) == EVERYTHING)

    def resume(self, instance: str, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Let it go on until it was fenced, or learned of the takeover without having to write."""
        process, before = self._processes[instance], len(self._assignments(instance))
        count = len(self._messages(instance))
        process.send_signal(signal.SIGCONT)
        self.until(
            lambda: process.poll() is not None or len(self._assignments(instance)) > before,
            meanwhile,
        )
        if process.poll() is not None:
            assert process.poll() == 1
            said = self._messages(instance)[count:]
            assert "stops: fenced: another process took over" in said[-1]
            assert not any("never retrieved" in message for message in said)
            self.start(instance)
        self.until(self.is_shared, meanwhile)

    def is_shared(self) -> bool:
        return [len(self._partitions(name)) for name in NAMES] == [4, 4]

    def said(self, domains: list[str]) -> dict[str, list[BreakerChanged | ScalePlanned]]:
        """Answers by domain, in order, as a reader of committed records gets them."""
        found: dict[str, list[BreakerChanged | ScalePlanned]] = {domain: [] for domain in domains}
        for event in read_all(self._settings, self._answer):
            found.setdefault(key_of(event), []).append(event)
        return {domain: found[domain] for domain in domains}

    def ticks(self, domains: list[str]) -> dict[str, list[int]]:
        """Ticks of these answers."""
        return {domain: [one.tick for one in all_] for domain, all_ in self.said(domains).items()}

    def until_answered(
        self, domains: list[str], tick: int, meanwhile: Callable[[], None] = lambda: None
    ) -> None:
        self.until(
            lambda: all(ticks[-1:] == [tick] for ticks in self.ticks(domains).values()), meanwhile
        )

    def saved(self, domain: str) -> Any:
        """The state that a restart would find."""
        return self.handler.load(domain, read_states(self._settings, self.handler.name)[domain])

    def until(
        self, there: Callable[[], bool], meanwhile: Callable[[], None] = lambda: None
    ) -> None:
        deadline = time.monotonic() + 2 * TIMEOUT_SECONDS
        while not there():
            assert time.monotonic() < deadline, "\n".join(self._log.read_text().splitlines()[-20:])
            meanwhile()
            time.sleep(0.2)

    def _partitions(self, instance: str) -> list[int]:
        told = self._assignments(instance)
        return list(json.loads(told[-1].split("partitions ")[1])) if told else []

    def _assignments(self, instance: str) -> list[str]:
        return [message for message in self._messages(instance) if "has partitions" in message]

    def _messages(self, instance: str) -> list[str]:
        lines = [json.loads(line) for line in self._log.read_text().splitlines()]
        return [line["message"] for line in lines if line["instance"] == instance]


@pytest.fixture
def pair_of(kafka: Running, tmp_path: Path) -> Iterator[Callable[..., Pair]]:
    made: list[Pair] = []

    def make(handler: Handler[Any], **environment: str) -> Pair:
        made.append(Pair(kafka, tmp_path, handler, environment))
        for name in NAMES:
            made[-1].start(name)
        made[-1].until(made[-1].is_shared)
        return made[-1]

    yield make
    for pair in made:
        pair.close()


def test_a_paused_example_overwrites_no_newer_state_and_says_nothing_after_a_takeover(
    pair_of: Callable[..., Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Example, "name", "fencing")
    pair = pair_of(
        Example(ExampleSettings()),
        MODULE="tests.kit_example_helpers",
        EXAMPLE_NAME="fencing",
        HIRL_EXAMPLE_PREFIX="fenced.",
        HIRL_EXAMPLE_WAIT_SECONDS=str(GRACE_S),
    )
    domains = [f"fenced.{name}" for name in "abcdefgh"]

    expected: list[int] = []
    for turn in range(ROUNDS):
        paused = NAMES[turn % 2]
        late, joined, after = (10 * turn + step for step in (1, 2, 3))
        pair.publish(*(sampled(domain, late) for domain in domains))
        time.sleep(1.0)  # it waits for a budget in both processes by now
        pair.pause(paused)
        # The other one is woken in time, and closes a tick after that.
        pair.until_answered(domains, late)
        pair.publish(*(event(one, joined) for one in domains for event in (granted, sampled)))
        pair.until_answered(domains, joined)
        pair.resume(paused)
        expected += [late, joined]
        assert pair.ticks(domains) == dict.fromkeys(domains, expected)
        assert {pair.saved(domain).closed for domain in domains} == {joined}
        pair.publish(*(event(one, after) for one in domains for event in (granted, sampled)))
        pair.until_answered(domains, after)
        expected.append(after)


def test_a_paused_breaker_does_not_open_what_it_no_longer_owns(
    pair_of: Callable[..., Pair],
) -> None:
    handler = BreakerHandler(CLUSTER, BreakerSettings().thresholds, STALE_S)
    # Domains that the cluster file does not have count as P0, which waits for less long.
    stale_s = STALE_S / GRADES[0].stale
    # Ten times real time, because a tick is fed each second; wall times are divided by it.
    pair = pair_of(handler, HIRL_SPEED="10", HIRL_BREAKER_STALE_SECONDS=str(10 * stale_s))
    domains = [f"watched-{name}" for name in "abcdefgh"]
    fed: list[int] = []

    def feed() -> None:
        """A frame of each domain a second, so that no owner ever misses them."""
        fed.append(len(fed))
        pair.publish(*(observed(domain, fed[-1]) for domain in domains))
        time.sleep(1.0)

    for turn in range(ROUNDS):
        feed()
        pair.until_answered(domains, fed[-1])
        paused = NAMES[turn % 2]
        pair.pause(paused)
        for _ in range(int(STALE_S) + 1):
            feed()
        pair.resume(paused, feed)
        pair.until_answered(domains, fed[-1])
        said = [event for all_ in pair.said(domains).values() for event in all_]
        assert {event.state for event in said if isinstance(event, BreakerChanged)} == {"closed"}
        # One answer to each frame, in order.
        assert pair.ticks(domains) == dict.fromkeys(domains, fed)
        assert {pair.saved(domain).tick for domain in domains} == {fed[-1]}


def test_a_paused_soldier_plans_no_tick_that_another_one_has_planned(
    pair_of: Callable[..., Pair],
) -> None:
    handler = SoldierHandler(CLUSTER, tuned_parameters(), GRACE_S)
    # Fast, because the frames below skip ticks, which takes time in a real cluster.
    pair = pair_of(handler, HIRL_GRACE_SECONDS=str(GRACE_S), HIRL_SPEED="100")
    domains = list(CLUSTER.domain_names)
    pair.publish(*(app for domain in domains for app in apps_of(domain)))

    def budgets(tick: int) -> list[Event]:
        return [budget(tick, domain=domain) for domain in domains]

    expected: list[int] = []
    for turn in range(ROUNDS):
        paused = NAMES[turn % 2]
        first, late, joined = (12 * turn + step for step in (1, 7, 8))
        pair.publish(*budgets(first - 1))
        pair.publish(*frames(domains, first))
        pair.until_answered(domains, first)
        # The budget of the next minute does not come.
        pair.publish(*frames(domains, late))
        time.sleep(1.0)
        pair.pause(paused)
        pair.until_answered(domains, late)
        pair.publish(*budgets(late - 1))
        pair.publish(*frames(domains, joined))
        pair.until_answered(domains, joined)
        pair.resume(paused)
        expected += [first, late, joined]
        assert pair.ticks(domains) == dict.fromkeys(domains, expected)
        assert {pair.saved(domain).closed for domain in domains} == {joined}


def observed(domain: str, tick: int) -> DomainObserved:
    """A calm frame of one app."""
    pods = {name: [1] for name in Pods.__struct_fields__}
    return DomainObserved(
        tick=tick, time=time_of(tick), domain=domain, apps=[f"{domain}/a"], pods=Pods(**pods),
        missing=[], measured={"rps": [10.0], "errors": [0.0]}, features={"headroom": [0.5]},
        load_pods=[1.0], usual_load_pods=[1.0],
    )  # fmt: skip


def apps_of(domain: str) -> list[AppDeclared]:
    """The apps of `service_helpers`, in a domain."""
    return [declared(app.replace("payments", domain), domain=domain) for app in APPS]


def frames(domains: list[str], tick: int) -> list[DomainObserved]:
    """What an aggregator makes of a batch of each domain."""
    bus = MemoryBus(ManualClock())
    bus.add(lambda: Service(AggregatorHandler(CLUSTER, tuned_parameters(), None)))
    bus.publish(*(app for domain in domains for app in apps_of(domain)), *pools(1))
    for domain in domains:
        names = [app.app for app in apps_of(domain)]
        bus.publish(batch(1, domain=domain, apps=names))
    bus.run()
    found = bus.events(DomainObserved)
    return [replace(frame, tick=tick, time=time_of(tick)) for frame in found]

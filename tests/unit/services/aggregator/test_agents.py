"""Agents sample pods of their own domain, which they prove, and decide nothing about a tick."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from models.control.tuned import tuned_parameters
from schemas.domain_observed import DomainObserved
from schemas.metrics_sampled import PODS, MetricsSampled
from schemas.samples_signed import SamplesSigned, signed
from schemas.topics import topic_of
from services._kit.clock import ManualClock
from services._kit.errors import BadSettings
from services._kit.handler import Service
from services._kit.memory import MemoryBus
from services._kit.settings import KitSettings
from services.admin.desired import desired_permissions
from services.aggregator.agents import AgentAggregator, AgentKeys, read_keys
from services.aggregator.app import build
from services.aggregator.decide import AggregatorHandler
from services.aggregator.settings import Settings
from tests.service_helpers import APPS, CLUSTER, DOMAIN, declared, inventory, pools, sampled

GRACE_S = 2.0
KEY, OTHER = b"k" * 32, b"o" * 32
KEYS = AgentKeys({DOMAIN: (KEY,), "data": (OTHER,)})
NONE: list[Any] = []


def bus_of(grace_s: float | None = GRACE_S) -> MemoryBus:
    bus = MemoryBus(ManualClock(1000.0))
    bus.add(lambda: Service(AgentAggregator(CLUSTER, tuned_parameters(), grace_s, KEYS)))
    bus.publish(*inventory(), *pools(0))
    return bus


def frames(bus: MemoryBus) -> list[DomainObserved]:
    bus.run()
    return bus.events(DomainObserved)


def errors(bus: MemoryBus) -> list[str]:
    bus.run()
    return [letter.error for letter in bus.dead_letters]


def of_agent(tick: int, app: str = APPS[0], **changes: Any) -> MetricsSampled:
    """Ten pods of an app, of which each has a tenth of twice the usual load."""
    pods = 10
    columns = {
        name: [value / pods] * pods
        for name, value in (("rps", 200.0), ("throughput", 200.0), ("cpu_cores", 8.0),
                            ("memory_gib", 10.0))
    }  # fmt: skip
    same = {"errors": [0.0] * pods, "latency_p50_s": [0.02] * pods, "latency_p99_s": [0.05] * pods}
    plain = sampled(tick, apps=[app] * pods, pods=[f"{app}/{n}" for n in range(pods)])
    empty = dict.fromkeys((*PODS, "measured_pods"), NONE)
    batch = msgspec.structs.replace(plain, final=False, **columns, **same, **empty)
    return msgspec.structs.replace(batch, **changes)


def test_samples_signed_with_the_domains_key_count() -> None:
    bus = bus_of()
    bus.publish(sampled(0), signed(of_agent(1), "a", KEY), sampled(1, apps=list(APPS[1:])))
    assert frames(bus)[-1].measured["rps"][0] == pytest.approx(200)
    assert errors(bus) == []


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (signed(of_agent(1), "a", OTHER), "wrong-signature"),
        (signed(of_agent(1), "a", b""), "wrong-signature"),
        (signed(of_agent(1, domain="fraud"), "a", KEY), "no-agent-key"),
        (
            msgspec.structs.replace(
                signed(of_agent(1, domain="data"), "a", OTHER), domain=DOMAIN
            ),
            "wrong-signature",
        ),
        (
            msgspec.structs.replace(signed(of_agent(1, domain="data"), "a", KEY), domain=DOMAIN),
            "not-for-agents",
        ),
        (signed(of_agent(1, final=True), "a", KEY), "not-for-agents"),
        (signed(of_agent(1, replicas=[1] * 10), "a", KEY), "not-for-agents"),
        (signed(of_agent(1, pods=[]), "a", KEY), "not-for-agents"),
        (signed(of_agent(1, rps=[1.0]), "a", KEY), "columns"),
        (signed(of_agent(300), "a", KEY), "tick-from-the-future"),
    ],
)  # fmt: skip
def test_everything_else_is_one_dead_letter_and_changes_no_frame(
    event: SamplesSigned, error: str
) -> None:
    bus, without = bus_of(), bus_of()
    for each in (bus, without):
        each.publish(sampled(0))
        each.run()
    bus.publish(event)
    bus.run()
    assert errors(bus) == [error]
    for each in (bus, without):
        each.advance(10.0)
        each.publish(sampled(1))
    assert frames(bus) == frames(without)


def test_an_agent_neither_closes_a_tick_nor_starts_its_grace_period() -> None:
    bus = bus_of()
    bus.publish(sampled(0))
    for app in APPS:
        bus.publish(signed(of_agent(1, app), "a", KEY))
    bus.advance(3 * GRACE_S)
    assert [frame.tick for frame in frames(bus)] == [0]
    bus.publish(sampled(1))
    assert frames(bus)[-1].closed_by == "final"
    assert frames(bus)[-1].measured["rps"][0] == 100.0, "the collector's word counts"


def test_ticks_that_only_agents_reported_hold_up_no_later_one() -> None:
    bus = bus_of()
    bus.publish(sampled(0))
    for tick in (1, 2):
        bus.advance(10.0)
        bus.publish(signed(of_agent(tick), "a", KEY))
    bus.publish(sampled(2))
    bus.advance(10.0)
    bus.publish(sampled(3))
    assert [frame.tick for frame in frames(bus)] == [0, 2, 3]


def test_before_the_collectors_first_samples_an_agent_sets_no_time() -> None:
    bus = bus_of()
    bus.publish(signed(of_agent(5000), "a", KEY))
    bus.advance(2 * GRACE_S)
    bus.publish(sampled(0))
    assert [frame.tick for frame in frames(bus)] == [0]
    assert errors(bus) == []


def test_without_a_collector_agents_fill_no_memory() -> None:
    handler, clock = AgentAggregator(CLUSTER, tuned_parameters(), GRACE_S, KEYS), ManualClock(1e3)
    for event in inventory():
        handler.learn(event, clock)
    state = handler.handle(sampled(0), handler.start(DOMAIN), clock).state
    for tick in range(1, 50):
        clock.advance(10.0)
        step = handler.handle(signed(of_agent(tick), "a", KEY), state, clock)
        assert step.settled, "offsets are not held back"
        state = step.state
    assert len(state.open_ticks) <= 6
    assert handler.due(state) is None


def test_a_new_app_joins_although_agents_are_ahead() -> None:
    bus = bus_of()
    bus.publish(sampled(0), signed(of_agent(1), "a", KEY))
    bus.run()
    bus.publish(declared("payments-0000"))
    bus.publish(sampled(1, apps=["payments-0000", *APPS]))
    assert frames(bus)[-1].apps == ["payments-0000", *APPS]


def test_only_collectors_may_write_unsigned_samples() -> None:
    topics = {
        one.name for one in desired_permissions() if (one.user, one.operation) == ("agent", "WRITE")
    }
    assert topics == {topic_of(SamplesSigned).name, "hirl.rejected.v1"}


# Keys.


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / DOMAIN).write_text("k" * 32 + "\n" + "n" * 40 + "\n")
    return tmp_path


def test_without_keys_nothing_of_agents_is_read(folder: Path) -> None:
    assert type(build(KitSettings(), Settings()).handler) is AggregatorHandler
    with_agents = build(KitSettings(), Settings(agent_keys=str(folder)))
    assert isinstance(with_agents.handler, AgentAggregator)


def test_each_line_is_a_key_so_that_keys_can_be_changed_one_agent_at_a_time(folder: Path) -> None:
    keys = read_keys(str(folder), CLUSTER.domain_names)
    for key in (b"k" * 32, b"n" * 40):
        assert keys.batch_of(signed(of_agent(1), "a", key)) == of_agent(1)


def break_unknown(folder: Path) -> None:
    (folder / "payment").write_text("k" * 32)


def break_short(folder: Path) -> None:
    (folder / DOMAIN).write_text("secret\n")


def break_empty(folder: Path) -> None:
    (folder / DOMAIN).unlink()


@pytest.mark.parametrize(
    ("break_it", "problem"),
    [(break_unknown, "payment"), (break_short, "32"), (break_empty, "no key")],
)
def test_keys_that_protect_nothing_stop_the_service_without_being_shown(
    folder: Path, break_it: Callable[[Path], None], problem: str
) -> None:
    break_it(folder)
    with pytest.raises(BadSettings, match=problem) as error:
        read_keys(str(folder), CLUSTER.domain_names)
    assert "secret" not in str(error.value)


def test_kubernetes_own_files_in_a_mounted_secret_are_no_domains(folder: Path) -> None:
    (folder / "..data").symlink_to(folder)
    assert read_keys(str(folder), CLUSTER.domain_names).domains == {DOMAIN}

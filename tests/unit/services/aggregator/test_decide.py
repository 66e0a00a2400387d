from typing import Any

import msgspec
import numpy as np
import pytest

from models.control.tuned import tuned_parameters
from schemas.app_declared import AppDeclared
from schemas.domain_observed import DomainObserved
from schemas.metrics_sampled import MEASURED, PODS, MetricsSampled
from schemas.topics import topic_of
from services._kit.arrays import observation_of
from services._kit.clock import ManualClock
from services._kit.handler import Service
from services._kit.memory import MemoryBus
from services.aggregator import decide
from services.aggregator.decide import AggregatorHandler
from services.aggregator.samples import TickSamples, with_batch
from tests.service_helpers import APPS, CLUSTER, declared, inventory, pools, sampled

GRACE_S = 2.0


@pytest.fixture
def bus() -> MemoryBus:
    bus = MemoryBus(ManualClock(1000.0))
    bus.add(lambda: Service(AggregatorHandler(CLUSTER, tuned_parameters(), GRACE_S)))
    bus.publish(*inventory(), *pools(0))
    return bus


def frames(bus: MemoryBus) -> list[DomainObserved]:
    bus.run()
    return bus.events(DomainObserved)


def test_a_tick_closes_when_its_source_has_nothing_more(bus: MemoryBus) -> None:
    bus.publish(sampled(0, apps=list(APPS[:2]), final=True))
    (frame,) = frames(bus)
    assert frame.closed_by == "final"
    assert frame.apps == list(APPS)
    assert frame.missing == [APPS[2]]


def test_a_tick_closes_when_every_declared_app_has_reported(bus: MemoryBus) -> None:
    bus.publish(sampled(0, apps=list(APPS[:2]), final=False))
    assert frames(bus) == []
    bus.publish(sampled(0, apps=list(APPS[2:]), final=False))
    (frame,) = frames(bus)
    assert frame.closed_by == "complete"
    assert frame.missing == []


def test_a_tick_closes_after_the_grace_period_and_lists_missing_apps(bus: MemoryBus) -> None:
    bus.publish(sampled(0, apps=list(APPS[:1]), final=False))
    bus.advance(GRACE_S - 0.1)
    assert frames(bus) == []
    bus.advance(0.2)
    (frame,) = frames(bus)
    assert frame.closed_by == "grace"
    assert frame.missing == list(APPS[1:])


def test_ticks_close_in_order_and_once(bus: MemoryBus) -> None:
    bus.publish(sampled(0, apps=list(APPS[:1]), final=False), sampled(1), sampled(1), sampled(0))
    bus.advance(2 * GRACE_S)
    bus.publish(sampled(0), sampled(1))
    assert [frame.tick for frame in frames(bus)] == [0, 1]


def test_samples_that_did_not_arrive_are_missing_and_never_zero(bus: MemoryBus) -> None:
    bus.publish(sampled(0), sampled(1, rps=[None, 100.0, 100.0]))
    _, frame = frames(bus)
    assert frame.missing == [APPS[0]]
    assert frame.measured["rps"][0] is None
    # The last valid sample goes on, and so does the load that was read off it.
    assert frame.features["rps"][0] == pytest.approx(100, rel=0.01)
    assert frame.load_pods[0] > 0


def test_all_zeros_of_a_broken_exporter_are_missing(bus: MemoryBus) -> None:
    dead: dict[str, Any] = {
        name: [0.0] * 3 for name in ("rps", "cpu_cores", "memory_gib", "latency_p99_s")
    }
    bus.publish(sampled(0), sampled(1, **dead))
    _, frame = frames(bus)
    assert frame.missing == list(APPS)


def test_single_pods_add_up_to_their_app(bus: MemoryBus) -> None:
    bus.publish(sampled(0))
    pods = [f"pod-{n}" for n in range(10)]
    batch = sampled(
        1,
        apps=[APPS[0]] * 10,
        pods=pods,
        final=False,
        rps=[20.0] * 10,
        cpu_cores=[0.5] * 10,
        latency_p99_s=[0.05] * 9 + [0.4],
    )
    bus.publish(batch, sampled(1, apps=list(APPS[1:]), final=False))
    _, frame = frames(bus)
    assert frame.closed_by == "complete"
    assert frame.measured["rps"][0] == pytest.approx(200)
    assert frame.measured["cpu_cores"][0] == pytest.approx(5)
    assert frame.measured["measured_pods"][0] == 10
    assert frame.measured["latency_p99_s"][0] == pytest.approx(0.4)


def test_apps_that_are_not_declared_are_skipped(bus: MemoryBus) -> None:
    bus.publish(sampled(0, apps=[*APPS, "stranger"]))
    (frame,) = frames(bus)
    assert frame.apps == list(APPS)


def test_an_app_declared_later_joins_the_next_frame(bus: MemoryBus) -> None:
    bus.publish(sampled(0))
    before = frames(bus)[-1]
    bus.publish(declared("payments-0000"))
    bus.publish(sampled(1, apps=["payments-0000", *APPS]))
    after = frames(bus)[-1]
    assert after.apps == ["payments-0000", *APPS]
    assert after.features["sample_age"] == [0.0] * 4
    assert np.allclose(after.load_pods[1:], before.load_pods, rtol=0.3)


def test_the_estimated_demand_survives_a_restart(bus: MemoryBus) -> None:
    for tick in range(5):
        bus.publish(sampled(tick, use=0.6))
    frames(bus)
    bus.kill("aggregator", redeliver=2)
    bus.start("aggregator")
    bus.publish(sampled(5, rps=[None] * 3))
    frame = frames(bus)[-1]
    assert frame.tick == 5
    assert all(load > 5 for load in frame.load_pods)


def test_samples_of_an_unknown_domain_are_dead_lettered(bus: MemoryBus) -> None:
    bus.publish(sampled(0, domain="nowhere"))
    assert frames(bus) == []
    (letter,) = bus.dead_letters
    assert letter.error == "unknown-domain"
    assert "payments" in letter.detail


SILENT: dict[str, Any] = {name: [] for name in PODS}
"""A source that does not know what the API server answers."""


def test_an_app_without_reported_pods_is_missing_even_with_metrics(
    bus: MemoryBus,
) -> None:
    bus.publish(sampled(0, **SILENT))
    (frame,) = frames(bus)
    assert frame.missing == list(APPS)
    assert frame.features["missing"] == [1.0] * 3
    assert frame.measured["rps"] == [None] * 3


def test_reported_pods_are_valid_for_three_ticks_also_after_a_restart(
    bus: MemoryBus,
) -> None:
    bus.publish(sampled(0), sampled(1, **SILENT))
    frames(bus)
    bus.kill("aggregator")
    bus.start("aggregator")
    bus.publish(sampled(2, **SILENT), sampled(3, **SILENT), sampled(4, **SILENT), sampled(5))
    assert [frame.missing for frame in frames(bus)] == [[], [], [], [], list(APPS), []]


def test_an_app_declared_later_is_missing_until_its_pods_are_reported(bus: MemoryBus) -> None:
    bus.publish(sampled(0))
    frames(bus)
    bus.publish(declared("payments-0000"))
    bus.publish(sampled(1, apps=["payments-0000", *APPS], **SILENT))
    assert frames(bus)[-1].missing == ["payments-0000"]


def test_a_changed_latency_target_counts_from_the_next_tick(bus: MemoryBus) -> None:
    bus.publish(sampled(0))
    assert frames(bus)[-1].features["headroom"] == pytest.approx([0.75] * 3)
    bus.publish(*(declared(app, latency_target_s=0.1) for app in APPS))
    bus.publish(sampled(1))
    assert frames(bus)[-1].features["headroom"] == pytest.approx([0.5] * 3)


def test_a_tick_from_the_future_does_not_silence_its_domain(bus: MemoryBus) -> None:
    bus.publish(sampled(0), sampled(361), sampled(1))
    assert [frame.tick for frame in frames(bus)] == [0, 1]
    assert [letter.error for letter in bus.dead_letters] == ["tick-from-the-future"]


def test_a_long_pause_of_the_source_is_accepted(bus: MemoryBus) -> None:
    bus.publish(sampled(0))
    frames(bus)
    bus.advance(10_000.0)
    bus.publish(sampled(1000))
    assert [frame.tick for frame in frames(bus)] == [0, 1000]


def test_without_requests_there_is_no_latency_and_nothing_is_missing(bus: MemoryBus) -> None:
    idle: dict[str, Any] = {name: [0.0, 100.0, 100.0] for name in ("rps", "throughput")}
    for name in ("errors", "latency_p50_s", "latency_p99_s"):
        idle[name] = [None, None, 0.1]
    bus.publish(sampled(0, **idle))
    (frame,) = frames(bus)
    assert frame.missing == [APPS[1]], "with requests, a latency that did not arrive is missing"
    assert frame.measured["latency_p99_s"] == [0.0, None, pytest.approx(0.1)]


def test_a_pod_counts_once_in_a_tick_even_if_its_batch_is_duplicated(bus: MemoryBus) -> None:
    bus.publish(sampled(0))
    pods = [f"pod-{n}" for n in range(10)]
    silent = [None, *[20.0] * 9]
    first = sampled(1, apps=[APPS[0]] * 10, pods=pods, final=False, rps=silent)
    whole = sampled(1, apps=[APPS[0]] * 10, pods=pods, final=False, rps=[20.0] * 10)
    bus.publish(first, first, whole, sampled(1, apps=list(APPS[1:])))
    frame = frames(bus)[-1]
    assert frame.measured["rps"][0] == pytest.approx(200)
    assert frame.measured["measured_pods"][0] == 10


def test_an_app_of_an_unknown_domain_is_dead_lettered(bus: MemoryBus) -> None:
    bus.publish(declared("payments-0009", domain="paymnets"), sampled(0))
    assert frames(bus)[-1].apps == list(APPS)
    assert [letter.error for letter in bus.dead_letters] == ["unknown-domain"]


def test_a_tombstone_removes_an_app(bus: MemoryBus) -> None:
    bus.publish(sampled(0))
    frames(bus)
    bus.put(topic_of(AppDeclared).name, APPS[0].encode(), None)
    bus.publish(sampled(1))
    assert frames(bus)[-1].apps == list(APPS[1:])


@pytest.mark.parametrize("name", ["latency_p99_s", "errors"])
def test_an_app_without_errors_or_latency_is_missing(name: str, bus: MemoryBus) -> None:
    lacking: dict[str, Any] = {name: []}
    bus.publish(sampled(0), sampled(1, **lacking))
    assert [frame.missing for frame in frames(bus)] == [[], list(APPS)]


def test_a_dead_lettered_batch_affects_no_other_tick(
    bus: MemoryBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(samples: TickSamples, batch: MetricsSampled) -> TickSamples:
        if batch.source == "bad":
            raise ZeroDivisionError
        return with_batch(samples, batch)

    monkeypatch.setattr(decide, "with_batch", fail)
    half = sampled(1, apps=list(APPS[:1]), final=False)
    bus.publish(sampled(0), half, sampled(1, source="bad"), sampled(1), sampled(2))
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            bus.run()
        bus.start("aggregator")
    assert [(frame.tick, frame.missing) for frame in frames(bus)] == [(0, []), (1, []), (2, [])]
    assert [(one.offset, one.error) for one in bus.dead_letters] == [
        (2, "poison"),
        (1, "unsettled"),
    ]


def test_reports_of_pods_do_not_replace_their_samples(bus: MemoryBus) -> None:
    measured: dict[str, Any] = {name: [] for name in MEASURED}
    bus.publish(sampled(0, final=False, **measured))
    assert frames(bus) == []
    pods = [f"pod-{n}" for n in range(10)]
    for app in APPS:
        batch = sampled(0, apps=[app] * 10, pods=pods, final=app == APPS[-1], **SILENT)
        bus.publish(batch)
    (frame,) = frames(bus)
    assert frame.missing == []
    assert frame.measured["rps"] == pytest.approx([1000.0] * 3)
    assert frame.pods.ready == [10] * 3


def test_latency_exposure_is_zero_without_callees_and_unknown_with_them(
    bus: MemoryBus,
) -> None:
    bus.publish(declared("fraud-0001", domain="fraud"))
    bus.publish(sampled(0), sampled(0, domain="fraud", apps=["fraud-0001"]))
    seen = {frame.domain: frame for frame in frames(bus)}
    assert seen["payments"].calls
    assert seen["payments"].latency_exposure is None
    assert seen["fraud"].calls == {}
    assert seen["fraud"].latency_exposure == 0.0


def test_a_domain_that_catches_up_sees_pools_as_they_are_now(
    bus: MemoryBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def spied(*args: Any) -> Any:
        observation = observation_of(*args)
        seen.append(int(observation.pool["ready"][0, 0]))
        return observation

    monkeypatch.setattr(decide, "observation_of", spied)
    bus.publish(sampled(0), sampled(1), sampled(2))
    bus.run()
    bus.advance(1000.0)
    bus.publish(*(msgspec.structs.replace(pool, ready=7) for pool in pools(100)))
    bus.publish(sampled(3))
    bus.run()
    assert seen == [100, 100, 100, 7]

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.app_declared import AppDeclared
from schemas.columns import MEASURED, PODS
from schemas.domain_observed import DomainObserved
from schemas.metrics_sampled import MetricsSampled
from schemas.topics import topic_of
from services._kit.clock import ManualClock
from services._kit.errors import Refused
from services._kit.handler import Service
from services._kit.inventory import DeclaredApps, parameters_of
from services._kit.memory import MemoryBus
from services.aggregator import decide
from services.aggregator.decide import AggregatorHandler
from services.aggregator.samples import TickSamples, no_samples, with_batch
from tests.services_data import APPS, CLUSTER, declared, inventory, pools, sampled

GRACE_S = 2.0


@pytest.fixture
def bus() -> MemoryBus:
    bus = MemoryBus(ManualClock(1000.0))
    bus.add(lambda: Service(AggregatorHandler(CLUSTER, parameters_of(), GRACE_S)))
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


def test_a_tick_closes_after_the_grace_period_and_says_what_is_missing(bus: MemoryBus) -> None:
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


def test_what_did_not_arrive_is_missing_and_never_zero(bus: MemoryBus) -> None:
    bus.publish(sampled(0), sampled(1, rps=[None, 100.0, 100.0]))
    _, frame = frames(bus)
    assert frame.missing == [APPS[0]]
    assert frame.measured["rps"][0] is None
    # The last valid sample goes on, and so does the load that was read off it.
    assert frame.features["rps"][0] == pytest.approx(100, rel=0.01)
    assert frame.load_pods[0] > 0


def test_zeros_of_an_exporter_on_error_are_missing(bus: MemoryBus) -> None:
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


def test_apps_that_are_not_declared_are_not_looked_at(bus: MemoryBus) -> None:
    bus.publish(sampled(0, apps=[*APPS, "stranger"]))
    (frame,) = frames(bus)
    assert frame.apps == list(APPS)


def test_an_app_that_comes_later_joins_the_next_frame(bus: MemoryBus) -> None:
    bus.publish(sampled(0))
    before = frames(bus)[-1]
    bus.publish(declared("payments-0000"))
    bus.publish(sampled(1, apps=["payments-0000", *APPS]))
    after = frames(bus)[-1]
    assert after.apps == ["payments-0000", *APPS]
    assert after.features["sample_age"] == [0.0] * 4
    assert np.allclose(after.load_pods[1:], before.load_pods, rtol=0.3)


def test_a_restart_remembers_the_demand(bus: MemoryBus) -> None:
    for tick in range(5):
        bus.publish(sampled(tick, use=0.6))
    frames(bus)
    bus.kill("aggregator", redeliver=2)
    bus.start("aggregator")
    bus.publish(sampled(5, rps=[None] * 3))
    frame = frames(bus)[-1]
    assert frame.tick == 5
    assert all(load > 5 for load in frame.load_pods)


def test_a_domain_that_nobody_knows_is_a_dead_letter(bus: MemoryBus) -> None:
    bus.publish(sampled(0, domain="nowhere"))
    assert frames(bus) == []
    (letter,) = bus.dead_letters
    assert letter.error == "unknown-domain"
    assert "payments" in letter.detail


SILENT: dict[str, Any] = {name: [] for name in PODS}
"""A source that does not know what the API server answers."""


def test_an_app_whose_pods_nobody_told_of_is_missing_though_its_metrics_come(
    bus: MemoryBus,
) -> None:
    bus.publish(sampled(0, **SILENT))
    (frame,) = frames(bus)
    assert frame.missing == list(APPS)
    assert frame.features["missing"] == [1.0] * 3
    assert frame.measured["rps"] == [None] * 3


def test_what_was_told_of_pods_is_believed_for_three_ticks_also_after_a_restart(
    bus: MemoryBus,
) -> None:
    bus.publish(sampled(0), sampled(1, **SILENT))
    frames(bus)
    bus.kill("aggregator")
    bus.start("aggregator")
    bus.publish(sampled(2, **SILENT), sampled(3, **SILENT), sampled(4, **SILENT), sampled(5))
    assert [frame.missing for frame in frames(bus)] == [[], [], [], [], list(APPS), []]


def test_an_app_that_comes_later_is_missing_until_its_pods_are_told_of(bus: MemoryBus) -> None:
    bus.publish(sampled(0))
    frames(bus)
    bus.publish(declared("payments-0000"))
    bus.publish(sampled(1, apps=["payments-0000", *APPS], **SILENT))
    assert frames(bus)[-1].missing == ["payments-0000"]


def test_a_target_that_is_declared_anew_counts_from_the_next_tick(bus: MemoryBus) -> None:
    bus.publish(sampled(0))
    assert frames(bus)[-1].features["headroom"] == pytest.approx([0.75] * 3)
    bus.publish(*(declared(app, latency_target_s=0.1) for app in APPS))
    bus.publish(sampled(1))
    assert frames(bus)[-1].features["headroom"] == pytest.approx([0.5] * 3)


def test_a_tick_from_the_future_does_not_silence_its_domain(bus: MemoryBus) -> None:
    bus.publish(sampled(0), sampled(361), sampled(1))
    assert [frame.tick for frame in frames(bus)] == [0, 1]
    assert [letter.error for letter in bus.dead_letters] == ["tick-from-the-future"]


def test_a_long_pause_of_the_source_is_no_mistake(bus: MemoryBus) -> None:
    bus.publish(sampled(0))
    frames(bus)
    bus.advance(60.0)
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


def test_a_pod_counts_once_in_a_tick_however_often_its_batch_comes(bus: MemoryBus) -> None:
    bus.publish(sampled(0))
    pods = [f"pod-{n}" for n in range(10)]
    silent = [None, *[20.0] * 9]
    first = sampled(1, apps=[APPS[0]] * 10, pods=pods, final=False, rps=silent)
    whole = sampled(1, apps=[APPS[0]] * 10, pods=pods, final=False, rps=[20.0] * 10)
    bus.publish(first, first, whole, sampled(1, apps=list(APPS[1:])))
    frame = frames(bus)[-1]
    assert frame.measured["rps"][0] == pytest.approx(200)
    assert frame.measured["measured_pods"][0] == 10


def test_an_app_of_a_domain_that_nobody_knows_is_a_dead_letter(bus: MemoryBus) -> None:
    bus.publish(declared("payments-0009", domain="paymnets"), sampled(0))
    assert frames(bus)[-1].apps == list(APPS)
    assert [letter.error for letter in bus.dead_letters] == ["unknown-domain"]


def test_a_tombstone_ends_an_app(bus: MemoryBus) -> None:
    bus.publish(sampled(0))
    frames(bus)
    bus.put(topic_of(AppDeclared).name, APPS[0].encode(), None)
    bus.publish(sampled(1))
    assert frames(bus)[-1].apps == list(APPS[1:])


def test_the_roster_has_another_version_when_something_else_is_declared() -> None:
    roster = DeclaredApps(CLUSTER)
    roster.learn(declared())
    first = roster.version
    roster.learn(declared())
    assert roster.version == first
    roster.learn(declared(max_replicas=9))
    assert roster.version > first


def test_the_roster_knows_the_last_word_of_apps_that_went_lately(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("services._kit.inventory._REMOVED_KEPT", 2)
    roster = DeclaredApps(CLUSTER)
    for app in APPS:
        roster.learn(declared(app, max_replicas=7))
        roster.forget(app)
    assert roster.all_apps() == ()
    assert roster.all_declared(APPS[1:])
    assert roster.inventory_of(APPS[1:]).max_replicas.tolist() == [7, 7]
    assert not roster.all_declared(APPS)
    with pytest.raises(Refused, match=f"unknown-app: .* got {APPS[0]}"):
        roster.inventory_of(APPS)


def test_single_pods_add_up_alike_however_they_are_batched() -> None:
    rng, many = np.random.default_rng(0), 200
    apps = [APPS[place] for place in rng.integers(0, len(APPS), many)]
    columns = {
        name: rng.gamma(1.0, 1.0, many).tolist()
        for name in ("rps", "throughput", "errors", "latency_p50_s", "latency_p99_s", "cpu_cores")
    }
    columns["cpu_cores"][7] = None

    def drafted(*edges: int) -> TickSamples:
        draft = no_samples(APPS, 0.0)
        for first, end in pairwise((0, *edges, many)):
            part = slice(first, end)
            batch = sampled(
                1,
                apps=apps[part],
                pods=[f"pod-{place}" for place in range(many)[part]],
                **{name: column[part] for name, column in columns.items()},
            )
            draft = with_batch(draft, batch)
        return draft

    whole, parts = drafted().measured(), drafted(1, 60, 61, 150).measured()
    assert whole.tobytes() == parts.tobytes()
    counted = [sum(app == name for app in apps) for name in APPS]
    counted[APPS.index(apps[7])] -= 1
    assert whole[0, MEASURED.index("measured_pods")].tolist() == counted
    own = np.array(apps) == APPS[0]
    own[7] = False
    rps, errors = np.array(columns["rps"])[own], np.array(columns["errors"])[own]
    mean = (rps * errors).sum() / rps.sum()
    assert whole[0, MEASURED.index("errors"), 0] == pytest.approx(mean, rel=1e-6)
    slowest = np.array(columns["latency_p99_s"])[own].max()
    assert whole[0, MEASURED.index("latency_p99_s"), 0] == pytest.approx(slowest, rel=1e-6)


PER_POD: dict[str, float] = {
    "rps": 20.0,
    "throughput": 20.0,
    "errors": 0.0,
    "latency_p50_s": 0.02,
    "latency_p99_s": 0.05,
    "cpu_cores": 0.5,
    "memory_gib": 1.0,
}
USED = ("cpu_cores", "memory_gib", "latency_p99_s")
ZERO: dict[str, float | None] = dict.fromkeys(PER_POD, 0.0)


def of_pods(*pods: dict[str, float | None], without: tuple[str, ...] = ()) -> dict[str, float]:
    """Samples of an app from those of its pods, which differ from healthy ones in this."""
    columns: dict[str, Any] = {
        name: [] if name in without else [pod.get(name, usual) for pod in pods]
        for name, usual in PER_POD.items()
    }
    names = [f"pod-{number}" for number in range(len(pods))]
    apps = [APPS[0]] * len(pods)
    batch = sampled(1, apps=apps, pods=names, measured_pods=[], **SILENT, **columns)
    draft = with_batch(no_samples(APPS[:1], 0.0), batch)
    return dict(zip(MEASURED, draft.measured()[0, :, 0].tolist(), strict=True))


BAD_POD = st.one_of(
    st.just(ZERO),
    st.dictionaries(
        st.sampled_from(tuple(PER_POD)),
        st.one_of(st.none(), st.floats(-1e6, -1e-6), st.just(float("inf"))),
        min_size=1,
    ),
)


@given(bad=st.lists(BAD_POD, min_size=1, max_size=5), place=st.integers(0, 3))
def test_a_pod_that_cannot_be_believed_never_lowers_what_its_app_uses(
    bad: list[dict[str, float | None]], place: int
) -> None:
    healthy: list[dict[str, float | None]] = [{}, {}, {"latency_p99_s": 0.4}]
    before = of_pods(*healthy)
    after = of_pods(*healthy[:place], *bad, *healthy[place:])
    assert after["measured_pods"] == before["measured_pods"] == 3
    for name in USED:
        assert after[name] == before[name]


def test_pods_none_of_which_can_be_believed_leave_their_app_missing() -> None:
    assert np.isnan(list(of_pods({"latency_p99_s": None}, {"latency_p99_s": None}).values())).all()
    assert np.isnan(list(of_pods({"cpu_cores": -1.5}, ZERO).values())).all()


@pytest.mark.parametrize("name", ["memory_gib", "latency_p99_s", "errors"])
def test_what_a_source_does_not_measure_is_a_gap_and_no_zero_and_its_pods_count(name: str) -> None:
    found = of_pods({}, {}, {}, without=(name,))
    assert np.isnan(found[name])
    assert found["measured_pods"] == 3
    assert found["cpu_cores"] == 1.5


@pytest.mark.parametrize("name", ["latency_p99_s", "errors"])
def test_an_app_whose_source_does_not_measure_how_it_fares_is_missing(
    name: str, bus: MemoryBus
) -> None:
    lacking: dict[str, Any] = {name: []}
    bus.publish(sampled(0), sampled(1, **lacking))
    assert [frame.missing for frame in frames(bus)] == [[], list(APPS)]


def test_a_batch_that_is_given_up_costs_no_other_tick(
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


def test_who_only_tells_of_pods_does_not_stand_in_for_their_samples(bus: MemoryBus) -> None:
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


def test_latency_exposure_is_zero_without_callees_and_unknown_where_they_are_not_seen(
    bus: MemoryBus,
) -> None:
    bus.publish(declared("fraud-0001", domain="fraud"))
    bus.publish(sampled(0), sampled(0, domain="fraud", apps=["fraud-0001"]))
    seen = {frame.domain: frame for frame in frames(bus)}
    assert seen["payments"].calls
    assert seen["payments"].latency_exposure is None
    assert seen["fraud"].calls == {}
    assert seen["fraud"].latency_exposure == 0.0

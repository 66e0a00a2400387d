"""The three failure modes are found when they occur, and only then."""

from typing import Any

import numpy as np
import pytest

from models.sim.accounting import WAIT_BINS
from models.sim.results.failures import FailureWatch, traffic_rise
from models.sim.results.findings import Finding, Setting
from models.sim.results.recording import Recording

TICKS, FIRST, SPIKE = 400, 60, 240
DOMAINS = ("payments", "merchant", "internal")
SETTING = Setting(
    domains=DOMAINS,
    priority=np.array([0, 1, 3], np.int32),
    share_pool=np.ones((3, 3), np.bool_),
    apps=300,
    tick_s=10.0,
    first_tick=FIRST,
)


@pytest.fixture
def calm() -> Recording:
    """Steady traffic, every pod placed at once and ready within 40 s."""
    by_domain = (TICKS, len(DOMAINS))
    flat: dict[str, Any] = {name: np.zeros(by_domain) for name in Recording._fields}
    recording = Recording(**flat)._replace(
        rps=np.full(by_domain, 1000.0),
        outside=np.full(by_domain, 800.0),
        ready=np.full(by_domain, 1000, np.int32),
        held=np.full(by_domain, 0.18),
        nodes_ready=np.full(by_domain, 100, np.int32),
        waits=np.zeros((*by_domain, WAIT_BINS), np.int32),
    )
    # Bin 4 is 40 s.
    recording.waits[:, :, 4] = 5
    return recording


def begun(recording: Recording) -> list[tuple[int, Finding]]:
    """Each failure with the tick in which it was found."""
    watch = FailureWatch(SETTING)
    return [(tick, found) for tick in range(TICKS) for found in watch.look(recording, tick)]


def found(recording: Recording) -> list[Finding]:
    watch = FailureWatch(SETTING)
    for tick in range(TICKS):
        watch.look(recording, tick)
    return watch.findings(recording)


def let_wait(recording: Recording, domain: int, pods: int, seconds: float) -> None:
    during = slice(SPIKE, SPIKE + 30)
    recording.pending[during, domain] = pods
    recording.waited_s[during, domain] = seconds


def test_a_calm_day_has_no_failures(calm: Recording) -> None:
    assert begun(calm) == []


def test_many_apps_asking_at_once_and_slow_pods_are_a_stampede(calm: Recording) -> None:
    calm.asking[SPIKE : SPIKE + 3] = [40, 10, 0]
    calm.nodes_booting[SPIKE + 3 : SPIKE + 10, 0] = 10
    calm.nodes_asked[SPIKE + 3 : SPIKE + 10, 0] = 20
    # 210 s from need to ready.
    calm.waits[SPIKE + 15 : SPIKE + 25, 0, 21] = 500
    ((tick, named),) = begun(calm)
    assert named.name == "stampede"
    assert (named.tick, tick) == (SPIKE, SPIKE + 15)
    assert named.domains == ("payments", "merchant")
    assert named.numbers["asking_apps"] == 50
    assert named.numbers["nodes_on_the_way"] == 30
    assert named.numbers["need_to_ready_p95_s"] == 210
    assert "50 apps" in named.explanation
    assert "3.5 min" in named.explanation


def test_asking_at_once_without_a_delay_is_not_a_stampede(calm: Recording) -> None:
    calm.asking[SPIKE : SPIKE + 3] = 50
    calm.nodes_booting[SPIKE : SPIKE + 10] = 30
    assert begun(calm) == []


def test_pods_that_wait_for_a_used_up_quota_are_not_a_stampede(calm: Recording) -> None:
    calm.asking[SPIKE : SPIKE + 3] = [40, 10, 0]
    calm.nodes_booting[SPIKE + 3 : SPIKE + 10, 0] = 1
    calm.waits[SPIKE + 15 : SPIKE + 25, 0, 21] = 500
    assert begun(calm) == []


def test_slow_pods_of_a_few_apps_are_not_a_stampede(calm: Recording) -> None:
    calm.asking[SPIKE : SPIKE + 3] = 1
    calm.nodes_booting[SPIKE + 3 : SPIKE + 10, 0] = 30
    calm.waits[SPIKE + 15 : SPIKE + 25, 0, 21] = 500
    assert begun(calm) == []


def test_a_bystander_that_waits_while_another_domain_rose_is_a_cascade(calm: Recording) -> None:
    calm.outside[SPIKE:, 0] *= 2
    calm.rps[SPIKE:, 0] *= 2
    calm.violating[SPIKE:, 1] = 0.2
    # The bystander's failing requests come again; that is no rise of its own.
    calm.rps[SPIKE:, 1] *= 1.5
    calm.retries[SPIKE:, 1] = 500
    let_wait(calm, 1, pods=80, seconds=60)
    calm.waits[SPIKE : SPIKE + 30, 1, 30] = 50
    (named,) = found(calm)
    assert named.name == "cascade"
    assert (named.tick, named.last_tick) == (SPIKE, SPIKE + 29)
    assert named.domains == ("merchant",)
    assert named.numbers["waiting_pods"] == 80
    assert named.numbers["violating_share"] == pytest.approx(0.2)
    assert named.numbers["need_to_ready_p95_s"] == 300
    assert "payments rose" in named.explanation


@pytest.mark.parametrize("factor", [1.0, 2.0], ids=["nobody rose", "it rose itself"])
def test_waiting_without_a_rise_elsewhere_is_not_a_cascade(calm: Recording, factor: float) -> None:
    calm.outside[SPIKE:, 1] *= factor
    calm.rps[SPIKE:, 1] *= factor
    let_wait(calm, 1, pods=80, seconds=150)
    assert begun(calm) == []


def test_pods_that_waited_before_the_rise_are_not_a_cascade(calm: Recording) -> None:
    calm.outside[SPIKE:, 0] *= 2
    calm.rps[SPIKE:, 0] *= 2
    let_wait(calm, 1, pods=80, seconds=900)
    assert found(calm) == []


def test_a_domain_that_rose_itself_is_not_a_bystander(calm: Recording) -> None:
    calm.outside[SPIKE - 30 :, 0] *= 2
    calm.rps[SPIKE - 30 : SPIKE - 10, :2] *= 2
    let_wait(calm, 1, pods=80, seconds=150)
    assert begun(calm) == []


def test_p0_waiting_while_p3_holds_capacity_is_a_priority_inversion(calm: Recording) -> None:
    let_wait(calm, 0, pods=80, seconds=150)
    (named,) = found(calm)
    assert named.name == "priority inversion"
    assert named.domains == ("payments",)
    assert named.numbers["p3_share"] == pytest.approx(0.18)
    assert "internal (P3) held 18.0%" in named.explanation


@pytest.mark.parametrize(
    ("pods", "seconds", "p3_share"),
    [(80, 50, 0.18), (5, 150, 0.18), (80, 150, 0.01)],
    ids=["a short wait", "a few pods", "P3 holds next to nothing"],
)
def test_an_ordinary_wait_of_p0_is_not_a_priority_inversion(
    calm: Recording, pods: int, seconds: float, p3_share: float
) -> None:
    calm.held[:, 2] = p3_share
    let_wait(calm, 0, pods, seconds)
    assert begun(calm) == []


def test_the_warm_up_is_not_judged(calm: Recording) -> None:
    calm.pending[:FIRST, 0], calm.waited_s[:FIRST, 0] = 80, 500
    assert begun(calm) == []


def test_a_failure_that_returns_soon_has_not_ended(calm: Recording) -> None:
    let_wait(calm, 0, pods=80, seconds=150)
    # A pause of 100 s is the same failure, one of more than five minutes is another.
    calm.pending[SPIKE + 10 : SPIKE + 20] = 0
    calm.pending[SPIKE + 80 : SPIKE + 85, 0], calm.waited_s[SPIKE + 80 :, 0] = 80, 150
    assert [(named.tick, named.last_tick) for named in found(calm)] == [
        (SPIKE, SPIKE + 29),
        (SPIKE + 80, SPIKE + 84),
    ]


def test_later_ticks_do_not_change_earlier_findings(calm: Recording) -> None:
    let_wait(calm, 0, pods=80, seconds=150)
    before = begun(calm)
    calm.rps[SPIKE + 1 :] *= 3
    calm.pending[SPIKE + 1 :] = 0
    assert begun(calm) == before


def test_a_rise_is_measured_against_the_lowest_mean_before_it(calm: Recording) -> None:
    calm.rps[SPIKE:, 0] *= 2
    assert traffic_rise(calm.rps, SPIKE + 60, 10.0) == pytest.approx([2, 1, 1])
    assert traffic_rise(calm.rps, 3, 10.0) == pytest.approx([1, 1, 1])

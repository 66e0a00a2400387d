"""The replica calculator: every branch against figures computed by hand."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.baselines.hpa.recommend import (
    Failure,
    Group,
    Pod,
    Readiness,
    Recommendation,
    Target,
    group_of,
    recommend,
    total,
)
from models.baselines.hpa.replica_calculator import Totals, by_average, by_utilisation, percent_used

OLD = {
    "phase": "Running", "deletion_timestamp_set": False, "ready_condition": "True",
    "ready_transition_age_s": 1000.0, "start_age_s": 2000.0, "request_millis": 1000,
    "usage_millis": 500, "metric_age_s": 20.0, "metric_window_s": 30.0,
}  # fmt: skip
PENDING = {"phase": "Pending", "usage_millis": None}
MISSING = {"usage_millis": None}
READINESS = Readiness()
few = settings(max_examples=60, deadline=None)


def pod(**changes: Any) -> Pod:
    return Pod(**{**OLD, **changes})


def pods(*parts: tuple[int, dict[str, Any] | int]) -> list[Pod]:
    """(how many, usage or changes)."""
    return [
        pod(**(what if isinstance(what, dict) else {"usage_millis": what}))
        for count, what in parts
        for _ in range(count)
    ]


def replicas(found: Recommendation | Failure) -> int | str:
    return found.value if isinstance(found, Failure) else found.replicas


def by_cpu(
    listed: list[Pod], current: int, *, percent: int = 50, strays: tuple[int, ...] = (), **more: Any
) -> int | str:
    target = Target(by_cpu=True, percent=percent, **more)
    return replicas(recommend(listed, strays, current, target, READINESS))


def by_value(listed: list[Pod], current: int, *strays: int) -> int | str:
    target = Target(by_cpu=False, average_millis=500)
    return replicas(recommend(listed, strays, current, target, READINESS))


@pytest.mark.parametrize(
    ("changes", "group"),
    [
        ({}, Group.READY),
        ({"deletion_timestamp_set": True, "phase": "Pending"}, Group.IGNORED),
        ({"phase": "Failed"}, Group.IGNORED),
        ({"phase": "Pending"}, Group.UNREADY),
        ({"phase": "Succeeded", "usage_millis": None}, Group.MISSING),
        ({"phase": "Unknown"}, Group.READY),
        ({"ready_condition": None}, Group.UNREADY),
        ({"start_age_s": None}, Group.UNREADY),
        ({"ready_condition": None, "usage_millis": None}, Group.MISSING),
        ({"start_age_s": 299.9, "ready_condition": "False"}, Group.UNREADY),
        ({"start_age_s": 299.9, "ready_condition": "Unknown"}, Group.READY),
        ({"start_age_s": 299.9, "ready_transition_age_s": 50.0}, Group.READY),
        ({"start_age_s": 299.9, "ready_transition_age_s": 49.9}, Group.UNREADY),
        ({"start_age_s": 300.0, "ready_transition_age_s": 1.0}, Group.READY),
        (
            {"start_age_s": 300.0, "ready_condition": "False", "ready_transition_age_s": 270.0},
            Group.READY,
        ),
        (
            {"start_age_s": 300.0, "ready_condition": "False", "ready_transition_age_s": 270.1},
            Group.UNREADY,
        ),
    ],
)
def test_a_pod_is_grouped_by_the_first_rule_that_applies(
    changes: dict[str, Any], group: Group
) -> None:
    assert group_of(pod(**changes), by_cpu=True, readiness=READINESS) is group


@pytest.mark.parametrize("changes", [{"ready_condition": None}, {"start_age_s": None}])
def test_only_cpu_metrics_depend_on_readiness(changes: dict[str, Any]) -> None:
    assert group_of(pod(**changes), by_cpu=False, readiness=READINESS) is Group.READY


@pytest.mark.parametrize(
    ("expected", "listed", "current", "more"),
    [
        pytest.param(7, pods((4, 800)), 4, {}, id="above: ceil(1.6 * 4)"),
        pytest.param(2, pods((4, 200)), 4, {}, id="below: ceil(0.4 * 4)"),
        pytest.param(
            3, pods((3, 559)), 3, {}, id="55.9 % is rounded down to 55, and 1.1 is tolerated"
        ),
        pytest.param(4, pods((3, 560)), 3, {}, id="1.12 is not"),
        pytest.param(10, pods((10, 450)), 10, {}, id="0.9 is tolerated"),
        pytest.param(9, pods((10, 449)), 10, {}, id="0.88 is not"),
        pytest.param(4, pods((4, 700)), 4, {"tolerance_up": 0.5}, id="a wide tolerance up"),
        pytest.param(59, pods((60, 490)), 60, {"tolerance_down": 0.0}, id="none down"),
        pytest.param(4, pods((2, 800)), 10, {}, id="ready pods are multiplied, not the current"),
        pytest.param(4, pods((4, 500), (1, MISSING)), 4, {}, id="at the target nothing is added"),
        pytest.param(
            3,
            pods((3, 100), (1, MISSING)),
            4,
            {},
            id="below the target, missing pods use their request",
        ),
        pytest.param(
            3,
            pods((3, 600), (1, MISSING)),
            4,
            {"percent": 150},
            id="or the target if that is higher",
        ),
        pytest.param(
            6, pods((3, 900), (1, MISSING)), 4, {}, id="above the target, missing pods use nothing"
        ),
        pytest.param(
            4, pods((1, 900), (3, MISSING)), 4, {}, id="a refill that reverses the ratio holds"
        ),
        pytest.param(
            4, pods((2, 900), (2, PENDING)), 4, {}, id="above the target, unready pods use nothing"
        ),
        pytest.param(
            1,
            pods((2, 200), (8, PENDING)),
            10,
            {},
            id="below the target, unready pods do not count",
        ),
        pytest.param(4, pods((10, 200), (1, PENDING)), 2, {}, id="even against the ratio"),
        pytest.param(2, pods((4, 100), (1, MISSING)), 2, {}, id="below, but more than current"),
        pytest.param(10, pods((2, 900), (1, MISSING)), 10, {}, id="above, but fewer than current"),
        pytest.param(
            5, pods((2, 900), (1, MISSING)), 3, {"strays": (1,)}, id="a stray sample is multiplied"
        ),
        pytest.param(
            4,
            pods((2, 900), (1, {"phase": "Failed"}), (1, {"deletion_timestamp_set": True})),
            4,
            {},
            id="ignored pods never return",
        ),
        pytest.param("no_pods", [], 4, {}, id="no pods"),
        pytest.param("no_usable_metrics", pods((2, PENDING)), 4, {}, id="no samples"),
        pytest.param(
            "missing_request",
            pods((2, 500), (1, {"phase": "Failed", "request_millis": None})),
            4,
            {},
            id="no request, though ignored",
        ),
        pytest.param(
            "zero_request_total", pods((2, PENDING)), 4, {"strays": (9,)}, id="only strays"
        ),
    ],
)
def test_recommendation_for_a_utilisation_target(
    expected: int | str, listed: list[Pod], current: int, more: dict[str, Any]
) -> None:
    assert by_cpu(listed, current, **more) == expected


@pytest.mark.parametrize(
    ("expected", "listed", "current", "strays"),
    [
        pytest.param(5, pods((1, 800), (2, 801)), 3, (), id="ceil(1.6 * 3)"),
        pytest.param(3, pods((2, 550), (1, 551)), 3, (), id="the average is cut to 550: 1.1"),
        pytest.param(2, pods((3, 100), (1, MISSING)), 4, (), id="missing use the target"),
        pytest.param(6, pods((3, 900), (1, MISSING)), 4, (), id="or nothing"),
        pytest.param(4, pods((2, 900), (1, PENDING)), 2, (), id="unready use nothing"),
        pytest.param(3, pods((2, 500)), 2, (1000,), id="stray samples are in the average"),
        pytest.param(1, pods((1, PENDING)), 1, (500,), id="and can stand alone"),
        pytest.param(6, pods((2, 900), (1, MISSING)), 3, (900,), id="also after a refill"),
        pytest.param(2, pods((2, {"request_millis": None})), 2, (), id="requests do not matter"),
    ],
)
def test_recommendation_for_an_average_value_target(
    expected: int, listed: list[Pod], current: int, strays: tuple[int, ...]
) -> None:
    assert by_value(listed, current, *strays) == expected


def test_the_values_of_the_first_pass_are_reported() -> None:
    target = Target(by_cpu=True, percent=50)
    found = recommend(pods((3, 905), (1, MISSING)), (), 4, target, READINESS)
    assert found == Recommendation(replicas=6, utilisation_percent=90, average_millis=905)


def test_assumed_use_of_missing_pods_is_rounded_down_pod_by_pod() -> None:
    listed = pods((2, {"usage_millis": None, "request_millis": 333}))
    totals = total(listed, (), by_cpu=True, readiness=READINESS, target_percent=150)
    assert totals.missing_fill == 998


@few
@given(st.integers(1, 1 << 20), st.integers(0, 1 << 20), st.integers(-1, 1))
def test_doubles_divide_as_integers_do(requests: int, percent: int, off: int) -> None:
    usage = max(0, requests * percent // 100 + off)
    assert percent_used(float(usage), float(requests)) == usage * 100 // requests
    assert percent_used(usage, requests) == usage * 100 // requests


def test_sums_beyond_doubles_are_divided_exactly() -> None:
    requests = 9 * 10**16
    assert percent_used(requests - 1, requests) == 99


COUNTS = st.integers(0, 40)


@few
@given(
    ready=st.integers(1, 40), missing=COUNTS, unready=COUNTS, usage=st.integers(0, 3000),
    target=st.integers(1, 200), current=st.integers(1, 100),
)  # fmt: skip
def test_a_refill_weakens_but_never_reverses_the_ratio(
    ready: int, missing: int, unready: int, usage: int, target: int, current: int
) -> None:
    fill = missing * (1000 * max(100, target) // 100)
    pods_seen = Totals(
        ready, ready * usage, ready * 1000, 0, 0, missing, missing * 1000, fill, unready,
        unready * 1000,
    )  # fmt: skip
    ratio = usage * 100 // 1000 / target
    if missing == 0 and (unready == 0 or ratio <= 1):
        return
    percent = by_utilisation(pods_seen, target, current, 0.9, 1.1)[0]
    average = by_average(pods_seen, 10 * target, current, 0.9, 1.1)[0]
    if ratio >= 1:
        assert percent >= current
    if ratio <= 1:
        assert percent <= current
    assert average >= current or usage < 10 * target

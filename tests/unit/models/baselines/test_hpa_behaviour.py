"""From recommendations to replicas: each rule against figures by hand, and invariants."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.baselines.hpa.golden import Moments, Spec, replay
from models.baselines.hpa.settings import (
    DOWN,
    KIND,
    PERIOD,
    UP,
    VALUE,
    Behaviour,
    Policy,
    ScalingRules,
    compile_rules,
)

Wanted = Sequence[int | None]
DEFAULT = Behaviour()
few = settings(max_examples=60, deadline=None)


def play(
    start: int,
    wanted: Wanted,
    behaviour: Behaviour | None = None,
    overrides: dict[int, int] | None = None,
    times: Sequence[int] | None = None,
    **more: Any,
) -> list[int]:
    """Replicas after each of the recommendations, 15 s apart."""
    spec = Spec(**{"least": 1, "most": 1000, "behaviour": behaviour, **more})
    steps = len(wanted)
    override = np.full(steps, -1, np.int32)
    for step, replicas in (overrides or {}).items():
        override[step] = replicas
    raw = np.array([-1 if value is None else value for value in wanted], np.int32)
    millis = np.array(times or [15_000 * step for step in range(steps)], np.int64)
    found: list[int] = replay(spec, Moments(millis, raw, override), start).final.tolist()
    return found


def side(
    *policies: tuple[Literal["Pods", "Percent"], int, int],
    window: int | None = 0,
    select: Literal["Max", "Min", "Disabled"] | None = None,
) -> ScalingRules:
    found = tuple(Policy(type=kind, value=value, period_s=s) for kind, value, s in policies)
    return ScalingRules(stabilization_window_s=window, select_policy=select, policies=found or None)


def up(*policies: Any, down: ScalingRules | None = None, **more: Any) -> Behaviour:
    return Behaviour(scale_up=side(*policies, **more), scale_down=down or side())


def down(*policies: Any, **more: Any) -> Behaviour:
    return Behaviour(scale_down=side(*policies, **more))


# Without the field.


def test_without_behaviour_a_step_doubles_or_reaches_four() -> None:
    assert play(1, [100] * 4) == [4, 8, 16, 32]
    assert play(1, [100] * 3, most=6) == [4, 6, 6]


def test_without_behaviour_the_window_includes_its_end() -> None:
    assert play(10, [2] * 22) == [10] * 21 + [2]


def test_without_behaviour_the_controller_sets_the_window_and_the_minimum_holds() -> None:
    assert play(10, [0] * 4, least=3, downscale_window_s=15) == [10, 10, 3, 3]


def test_without_behaviour_an_older_and_higher_recommendation_scales_up() -> None:
    assert play(10, [30, 5, 5]) == [20, 30, 30]


@pytest.mark.parametrize("behaviour", [None, DEFAULT])
def test_a_failed_metric_holds_and_is_not_stored(behaviour: Behaviour | None) -> None:
    found = play(10, [9, *[None] * 19, 2, 2, 2], behaviour)
    assert found[:20] == [10] * 20
    assert found[-1] == 2


@pytest.mark.parametrize("behaviour", [None, DEFAULT, Behaviour(
    scale_up=side(select="Disabled"), scale_down=side(select="Disabled"))])  # fmt: skip
def test_replicas_outside_the_bounds_are_corrected_without_a_metric(
    behaviour: Behaviour | None,
) -> None:
    assert play(20, [None, None], behaviour, most=10) == [10, 10]
    assert play(1, [None, None], behaviour, least=7) == [7, 7]


@pytest.mark.parametrize("behaviour", [None, Behaviour(scale_down=side(window=0))])
def test_zero_switches_an_hpa_off_unless_it_scaled_to_zero_itself(
    behaviour: Behaviour | None,
) -> None:
    scalable_to_zero: dict[str, Any] = {"behaviour": behaviour, "least": 0, "downscale_window_s": 0}
    assert play(0, [5, 5], **scalable_to_zero) == [0, 0]
    assert play(0, [5, 5], **scalable_to_zero, to_zero=True) == [0, 0]
    assert play(2, [0, 0, 3], **scalable_to_zero)[1:] == [0, 0]
    assert play(2, [0, 0, 3], **scalable_to_zero, to_zero=True)[1:] == [0, 3]
    assert play(2, [2, 2, 3], **scalable_to_zero, overrides={2: 0}, to_zero=True) == [2, 2, 0]


# With the field.


def test_the_default_behaviour_adds_four_or_doubles_in_15_s() -> None:
    assert play(1, [100] * 4, DEFAULT) == [5, 10, 20, 40]


def test_a_change_counts_from_its_confirmation() -> None:
    assert play(1, [100] * 5, DEFAULT, latency_millis=1) == [5, 5, 10, 10, 20]


def test_the_default_behaviour_excludes_the_end_of_the_window() -> None:
    assert play(10, [2] * 21, DEFAULT) == [10] * 20 + [2]


def test_an_upscale_window_follows_the_lowest_recommendation() -> None:
    rising = up(window=60)
    assert play(2, [10] * 5, rising) == [2, 2, 2, 2, 6]
    assert play(2, [10, 10, 4, 10, 10, 10], rising)[4:] == [4, 4]


def test_the_first_sync_stores_even_zero_replicas() -> None:
    assert play(0, [9] * 5, up(window=60), overrides={1: 3}) == [0, 3, 3, 3, 7]


def test_percentages_are_computed_in_doubles() -> None:
    assert play(50, [100], up(("Percent", 10, 60))) == [56]
    assert play(10, [0], down(("Percent", 80, 60))) == [1]


def test_a_percentage_policy_cannot_scale_up_from_zero() -> None:
    assert play(2, [0, 5, 5], up(("Percent", 100, 15)), least=0, to_zero=True) == [0, 0, 0]


def test_select_max_or_min_chooses_among_policies() -> None:
    both = (("Pods", 2, 15), ("Percent", 100, 15))
    assert play(4, [50], up(*both, select="Max")) == [8]
    assert play(4, [50], up(*both, select="Min")) == [6]
    both = (("Pods", 1, 15), ("Percent", 50, 15))
    assert play(10, [1], down(*both, select="Max")) == [5]
    assert play(10, [1], down(*both, select="Min")) == [9]


def test_a_direction_can_be_switched_off() -> None:
    assert play(4, [50, 1], Behaviour(scale_up=side(select="Disabled"), scale_down=side())) == [
        4,
        1,
    ]
    assert play(4, [1, 50], Behaviour(scale_down=side(select="Disabled"))) == [4, 8]


def test_changes_of_both_directions_count_in_a_period() -> None:
    assert play(10, [14, 8, 20], up(("Pods", 4, 60))) == [14, 8, 14]


def test_a_limit_never_reverses_a_step() -> None:
    # The bounds moved it by 15 within the period, more than its policy would.
    assert play(5, [30, 30], up(("Pods", 4, 60)), least=20) == [20, 20]
    assert play(30, [5, 5], down(("Pods", 4, 60)), most=15) == [15, 15]


def test_an_expired_change_is_replaced_even_if_the_other_direction_needs_it() -> None:
    rules = Behaviour(scale_up=side(("Pods", 10, 15)), scale_down=side(("Pods", 2, 100)))
    assert play(10, [12, 14, 16, 0], rules) == [12, 14, 16, 10]


def test_of_several_expired_changes_the_last_is_replaced() -> None:
    rules = Behaviour(scale_up=side(("Pods", 10, 15)), scale_down=side(("Pods", 1, 1000)))
    # Listed: 1 at 0 s and 2 at 15 s. Both are old at 60 s, when 4 replaces the 2.
    times = [0, 15_000, 60_000, 75_000]
    assert play(10, [11, 13, 17, 1], rules, times=times) == [11, 13, 17, 17 - 1 - 4 - 1]


def test_omitted_fields_get_the_defaults_of_the_api() -> None:
    given_window = Behaviour(scale_up=ScalingRules(stabilization_window_s=60))
    rules = compile_rules([None, DEFAULT, given_window, down(("Pods", 3, 90), window=None)], 120)
    assert rules.set.tolist() == [0, 1, 1, 1]
    assert rules.window[UP].tolist() == [0, 0, 60_000, 0]
    assert rules.window[DOWN].tolist() == [120_000] * 4
    assert rules.policies[UP, :, VALUE, 2].tolist() == [4, 100]
    assert rules.policies[DOWN, :, VALUE, 1].tolist()[0] == 100
    assert rules.policies[DOWN, :, KIND, 3].tolist() == [0, -1]
    assert rules.policies[DOWN, 0, PERIOD, 3] == rules.longest[DOWN, 3] == 90_000


# Always.

WANTED = st.lists(st.none() | st.integers(0, 60), min_size=1, max_size=60)
GAPS = st.lists(st.integers(1, 90_000), min_size=60, max_size=60)
POLICIES = st.lists(
    st.builds(
        Policy, type=st.sampled_from(["Pods", "Percent"]), value=st.integers(1, 150),
        period_s=st.integers(1, 200),
    ), min_size=1, max_size=3,
).map(tuple)  # fmt: skip
SIDES = st.none() | st.builds(
    ScalingRules, stabilization_window_s=st.none() | st.integers(0, 400),
    select_policy=st.sampled_from([None, "Max", "Min", "Disabled"]), policies=st.none() | POLICIES,
)  # fmt: skip
BEHAVIOURS = st.none() | st.builds(Behaviour, scale_up=SIDES, scale_down=SIDES)


def times_of(gaps: Sequence[int], steps: int) -> list[int]:
    millis: list[int] = np.cumsum([0, *gaps])[:steps].tolist()
    return millis


@few
@given(st.integers(1, 70), st.integers(1, 20), st.integers(0, 40), WANTED, GAPS, BEHAVIOURS)
def test_replicas_stay_in_bounds_and_a_failed_metric_holds(
    start: int, least: int, more: int, wanted: Wanted, gaps: list[int], behaviour: Behaviour | None
) -> None:
    times = times_of(gaps, len(wanted))
    found = play(start, wanted, behaviour, least=least, most=least + more, times=times)
    assert all(least <= replicas <= least + more for replicas in found)
    for before, after, recommended in zip(found, found[1:], wanted[1:], strict=False):
        assert recommended is not None or after == before
        if behaviour is not None and recommended is not None:
            assert min(before, recommended) <= after <= max(before, recommended) or after in (
                least,
                least + more,
            )


@few
@given(st.integers(1, 60), st.integers(0, 400), WANTED, GAPS)
def test_the_window_maximum_is_correct_for_irregular_times(
    start: int, window_s: int, wanted: Wanted, gaps: list[int]
) -> None:
    times = times_of(gaps, len(wanted))
    stored = [(start, times[0])]
    expected, current = [], start
    for recommended, now in zip(wanted, times, strict=True):
        if recommended is not None:
            stored.append((recommended, now))
            highest = max(r for r, then in stored if now - then <= 1000 * window_s)
            current = min(max(highest, 1), max(2 * current, 4), 1000)
        expected.append(current)
    assert play(start, wanted, times=times, downscale_window_s=window_s) == expected

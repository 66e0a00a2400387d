"""Drift is a distance from training, beyond that of any run of training."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.inputs.errors import InputError
from models.registry.drift import (
    FEATURES,
    NO_DRIFTS,
    Distribution,
    Reference,
    Seen,
    Values,
    Watched,
    problem,
    read_features,
    summarised,
    watch_both,
    write_features,
)

F32 = np.float32


def runs(count: int = 12, seed: int = 0, shift: float = 0.0) -> list[dict[str, Any]]:
    """Runs of an hour with a level each, and a column that is 0 most of the time."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        level = random.normal()
        found.append(
            {
                "rps": (random.normal(level, 1.0, (60, 5)) + shift).astype(F32),
                "pending": np.where(random.random((60, 5)) < 0.9, 0.0, 1.0).astype(F32),
            }
        )
    return found


def distance(one: Any, other: Any) -> float:
    """By definition."""
    every = np.sort(np.concatenate([one, other]))
    below = [np.searchsorted(np.sort(v), every, side="right") / v.size for v in (one, other)]
    return float(np.abs(below[0] - below[1]).max())


@given(st.integers(0, 10_000), st.floats(-3, 3), st.floats(0.2, 3))
def test_the_distance_is_that_of_kolmogorov_and_smirnov_to_two_percent(
    seed: int, shift: float, scale: float
) -> None:
    random = np.random.default_rng(seed)
    training = random.normal(size=500).astype(F32)
    # With a step at 0, as many features have.
    training[:100] = 0.0
    serving = (training[::-1][:300] * scale + shift).astype(F32)
    reference = Reference("v", summarised([{"x": training}]))
    found = float(reference.distances(reference.counted({"x": serving}))[0])
    assert found == pytest.approx(distance(training, serving), abs=0.0232)


def test_every_run_of_training_is_within_the_spread_and_another_hour_like_them_nearly() -> None:
    training = runs()
    reference = Reference("v", summarised(training))
    assert all(set(reference.drift_of(run).values()) == {0.0} for run in training)
    more = [max(reference.drift_of(run).values()) for run in runs(count=20, seed=1)]
    assert max(more) < 0.3
    assert np.median(more) < 0.05


@pytest.mark.parametrize("shift", [-6.0, 6.0])
def test_what_training_never_saw_is_drift_on_either_side(shift: float) -> None:
    reference = Reference("v", summarised(runs()))
    drift = reference.drift_of(runs(1, seed=2, shift=shift)[0])
    assert drift["rps"] > 0.3
    assert drift["pending"] < 0.1
    assert "rps is another than in training" in problem(drift, 0.3)
    assert problem(drift, 0.99) == problem({}, 0.0) == ""


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_or_not_there_is_as_far_away_as_possible(value: float) -> None:
    reference = Reference("v", summarised([{"x": np.arange(100, dtype=F32)}]))
    assert reference.drift_of({"x": np.full(10, value, F32)}) == {"x": 1.0}
    assert reference.drift_of({"x": np.zeros(0, F32)}) == {"x": 1.0}


def test_a_window_says_nothing_before_it_is_full_and_then_follows_what_comes() -> None:
    reference, seen = Reference("v", summarised(runs())), Seen()
    like, other = runs(1)[0], runs(1, shift=8.0)[0]
    drifts = []
    for minute in range(60):
        values = {name: each[minute % 60] for name, each in (like, other)[minute >= 30].items()}
        seen, drift = reference.watch(seen, values, window=10)
        drifts.append(drift.get("rps"))
    assert drifts[:9] == [None] * 9
    assert drifts[29] is not None
    assert drifts[29] < 0.1
    assert drifts[59] is not None
    assert drifts[59] > 0.25
    # Of another version it knows nothing.
    assert Reference("w", summarised(runs())).watch(seen, like, window=10)[1] == {}


def test_distributions_come_back_from_their_file() -> None:
    found = summarised(runs())
    assert read_features(write_features(found), "x") == found


@pytest.mark.parametrize(
    "change",
    [
        {"values": [2.0, 1.0]},
        {"values": [1.0]},
        {"shares": [0.5, 0.4]},
        {"shares": [0.5, 1.5]},
        {"values": [0.0] * 60, "shares": [0.0] * 60},
        {"values": [], "shares": []},
        {"spread": -0.1},
    ],
)
def test_distributions_that_are_none_are_refused_in_one_line(change: dict[str, Any]) -> None:
    sound: dict[str, Any] = {"values": [1.0, 2.0], "shares": [0.5, 1.0], "spread": 0.1}
    with pytest.raises(InputError, match=FEATURES) as refused:
        read_features(write_features({"x": Distribution(**(sound | change))}), "x")
    assert "\n" not in str(refused.value)


def test_what_a_candidate_saw_stays_known_when_it_becomes_the_incumbent() -> None:
    one, other = (Reference(version, summarised(runs())) for version in ("v", "w"))
    values, watched = runs()[0], Watched()
    for incumbent, candidate in ((one, None), (one, other), (other, None)):
        watched, _ = watch_both(watched, incumbent, candidate, lambda: values, 60)
    assert (watched.incumbent.version, watched.incumbent.minutes) == ("w", 2)
    assert watched.candidate.version == ""


def test_nothing_is_encoded_where_nothing_can_be_compared() -> None:
    def values() -> Values:
        raise AssertionError

    before = Watched()
    watched, drifts = watch_both(before, None, None, values, 60)
    assert watched is before
    assert drifts == NO_DRIFTS

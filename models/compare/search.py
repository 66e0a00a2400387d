"""Where to search for better parameters: first spread evenly, then around the best found.

Pure and deterministic: the next points follow from the seed and from the values so far, never from
timing or the number of processes.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Point = dict[str, float]
Ranges = Mapping[str, tuple[float, float]]

_SPREAD_SHARE: Final = 0.6
"""Share of the budget for the even spread; the rest refines."""
BATCH: Final = 4
"""Points that are refined together. Fixed, so that the number of processes does not change the
result."""
_FIRST_STEP: Final = 0.2
"""Standard deviation of the first refining steps, as a share of a range."""
_LAST_STEP: Final = 0.03
"""The same for the last ones; steps shrink geometrically in between."""
_WIDE: Final = 10.0
"""Ranges wider than this factor are searched on a logarithmic scale."""
_DIGITS: Final = 4
"""Significant digits of tuned values."""


class Tried(NamedTuple):
    """A point and its value; less is better."""

    point: Point
    value: float


def batches(
    defaults: Point, ranges: Ranges, budget: int, seed: int, tried: Sequence[Tried]
) -> Iterator[list[Point]]:
    """Batches of points, `budget` in all; the caller appends their values to `tried` in between.

    The first point is the defaults, so that the result is never worse than no search.
    """
    spread = max(1, round(_SPREAD_SHARE * budget))
    yield [defaults, *latin_hypercube(ranges, spread - 1, seed)]
    left = budget - spread
    rounds = math.ceil(left / BATCH)
    for number in range(rounds):
        count = min(BATCH, left - number * BATCH)
        # The generator resumes after the caller has appended the values of the batch before.
        yield around(best(tried).point, ranges, count, _step(number, rounds), (seed, number))


def best(tried: Sequence[Tried]) -> Tried:
    """The lowest value; of equals the first."""
    return min(tried, key=lambda one: one.value)


def latin_hypercube(ranges: Ranges, count: int, seed: int) -> list[Point]:
    """Points of which every slice of every range holds exactly one."""
    # The last number separates the stream of this phase from that of `around`.
    rng = np.random.default_rng([seed, 0])
    # `count` is zero for a budget of one, which goes to the defaults.
    columns = [(rng.permutation(count) + rng.random(count)) / max(1, count) for _ in ranges]
    return [from_unit(np.array(row), ranges) for row in zip(*columns, strict=True)]


def around(
    centre: Point, ranges: Ranges, count: int, step: float, seed: tuple[int, int]
) -> list[Point]:
    """Points near a centre, clipped to the ranges."""
    rng = np.random.default_rng([*seed, 1])
    unit = to_unit(centre, ranges)
    steps = step * rng.standard_normal((count, len(ranges)))
    return [from_unit(np.clip(unit + one, 0.0, 1.0), ranges) for one in steps]


def from_unit(unit: NDArray[np.float64], ranges: Ranges) -> Point:
    """A point of the unit cube in the units of the ranges, with few digits."""
    point = {}
    for share, (name, (low, high)) in zip(unit.tolist(), ranges.items(), strict=True):
        point[name] = float(f"{_value(share, low, high):.{_DIGITS}g}")
    return point


def to_unit(point: Point, ranges: Ranges) -> NDArray[np.float64]:
    """The inverse of `from_unit`, clipped to the ranges."""
    return np.array([_share(point[name], low, high) for name, (low, high) in ranges.items()])


def _value(share: float, low: float, high: float) -> float:
    if _by_magnitude(low, high):
        return float(low * (high / low) ** share)
    return low + share * (high - low)


def _share(value: float, low: float, high: float) -> float:
    inside = min(max(value, low), high)
    if _by_magnitude(low, high):
        return math.log(inside / low) / math.log(high / low)
    return (inside - low) / (high - low)


def _by_magnitude(low: float, high: float) -> bool:
    # On a linear scale only one point in twenty of 0.0005 to 0.02 would be below 0.0015.
    return low > 0 and high / low > _WIDE


def _step(number: int, rounds: int) -> float:
    share = number / max(1, rounds - 1)
    return float(_FIRST_STEP * (_LAST_STEP / _FIRST_STEP) ** share)

"""Draws of whole rows are as independent as they have to be."""

import numpy as np
import pytest

from models.cluster.arrays import F64
from models.sim.draws import as_normal_32, as_uniform_32, draw_in_row, row_key, stream

ENTITIES = 1500
KEYS = 200


def words(seed: int, ordinal: int, ticks: range) -> F64:
    """[ticks, entities] draws as shares of the 32-bit range."""
    source = stream(seed, 2)
    rows = [
        [int(draw_in_row(row_key(source, ordinal, tick), entity)) for entity in range(ENTITIES)]
        for tick in ticks
    ]
    return np.array(rows, np.float64) / 2**32


@pytest.fixture(scope="module")
def drawn() -> F64:
    return words(1, 0, range(KEYS))


def correlation(one: F64, other: F64) -> float:
    return float(np.corrcoef(one.ravel(), other.ravel())[0, 1])


def test_draws_of_a_row_are_uniform(drawn: F64) -> None:
    counts, _ = np.histogram(drawn, bins=64, range=(0, 1))
    expected = drawn.size / 64
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    assert chi_square < 120, "64 bins: 63 expected, 120 is a chance of one in 100,000"


def test_every_bit_is_set_half_of_the_time(drawn: F64) -> None:
    bits = (drawn * 2**32).astype(np.uint64)[..., None] >> np.arange(32, dtype=np.uint64) & 1
    assert np.abs(bits.mean(axis=(0, 1)) - 0.5).max() < 5 * 0.5 / np.sqrt(drawn.size)


def test_neighbouring_draws_are_independent(drawn: F64) -> None:
    """Entities, ticks, ordinals and seeds that differ by one."""
    # Five standard errors of a correlation, so that it fails by chance once in millions of runs.
    limit = 5 / np.sqrt(drawn.size / 2)
    few = range(KEYS // 2)
    assert abs(correlation(drawn[:, 1:], drawn[:, :-1])) < limit
    assert abs(correlation(drawn[1:], drawn[:-1])) < limit
    assert abs(correlation(drawn[: KEYS // 2], words(1, 1, few))) < limit
    assert abs(correlation(drawn[: KEYS // 2], words(2, 0, few))) < limit


def test_sums_over_entities_and_over_ticks_have_the_spread_of_independent_draws(
    drawn: F64,
) -> None:
    for axis in (0, 1):
        expected = np.sqrt(drawn.shape[axis] / 12)
        assert drawn.sum(axis=axis).std() == pytest.approx(expected, rel=0.2)


def test_rows_are_not_permutations_of_each_other(drawn: F64) -> None:
    # Hashed by half of the key only, rows would hold the same words in another order.
    assert np.unique(drawn).size > 0.999 * drawn.size


def test_uniform_and_normal_draws_have_the_right_mean_and_spread() -> None:
    key = row_key(stream(5, 2), 0, 0)
    drawn = [draw_in_row(key, entity) for entity in range(20_000)]
    normal = np.array([as_normal_32(word) for word in drawn])
    uniform = np.array([as_uniform_32(word) for word in drawn])
    assert normal.mean() == pytest.approx(0, abs=0.03)
    assert normal.std() == pytest.approx(1, abs=0.02)
    assert np.abs(normal).max() < 3.5
    assert uniform.mean() == pytest.approx(0.5, abs=0.01)
    assert 0 <= uniform.min() < 0.001
    assert 0.999 < uniform.max() < 1

"""Windows for training and validation, encoded once."""

import hashlib
from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from models.cluster.arrays import F32, F64, I64, Mask
from models.forecaster.learned.announcements import HOLIDAY
from models.forecaster.learned.encode import encode
from models.forecaster.learned.inputs import AHEAD_MIN, NetworkInputs, to_log
from models.forecaster.port import LEAST_HISTORY_MIN
from models.forecaster.score.windows import origins as valid_origins
from models.forecaster.series import Series
from models.forecaster.training.corpus import Part

MOST_WINDOWS: Final = 100_000
"""Largest number of windows of one part; a larger part is sampled."""
_LARGEST: Final = 6.0
"""Bound of a target, as a logarithm."""
_NEAR_START_MIN: Final = (45, 15)
_NEAR_END_MIN: Final = (30, 15)
"""Minutes before and after an announced start or end that count as near it: they show whether an
event happens, early, late or not at all, and whether it is over."""
_NEAR_SHARE: Final = 0.5
"""Share of windows near events in a sampled series; otherwise they would be too rare to learn."""
_BLOCK_MIN: Final = 360
"""Minutes per block. Blocks, because neighbouring windows share most of their minutes: validated
beside its neighbours, a network would seem to know what it memorised."""
_VALIDATION: Final = 10
"""Every n-th block of six hours is for validation, with a margin that is not trained on."""
_MARGIN_MIN: Final = 60
_AHEAD: Final = max(AHEAD_MIN)


class Pool(NamedTuple):
    """N windows."""

    past: F32
    future: F32
    static: F32
    target: F32
    """[N, F] logarithm of the value of each minute ahead; NaN where it is missing."""
    peak: F32
    """[N, F] the same of the highest minute until then."""
    weight: F32
    """[N] proportional to the traffic, with mean 1 in each series."""
    share: F64
    """[N] probability of being sampled."""

    @property
    def digest(self) -> str:
        """Digest of the windows: a run may only continue with the same data."""
        found = hashlib.blake2b(digest_size=8)
        for part in self:
            found.update(np.ascontiguousarray(part).data)
        return found.hexdigest()


def pools(parts: Iterable[Part], seed: int) -> tuple[Pool, Pool]:
    """The pools for training and for validation."""
    rng = np.random.default_rng(seed)
    learned, validated = [], []
    for part in parts:
        # A part of which no series has a window teaches nothing.
        if not any(series.rps.size > _AHEAD for series in part.series):
            continue
        learned.append(_part(part, rng, validation=False))
        validated.append(_part(part, rng, validation=True))
    return _joined(learned), _joined(validated)


def origins(series: Series, end_min: int) -> I64:
    """Minutes with a value before `end_min`, early enough for all targets."""
    return valid_origins(series, LEAST_HISTORY_MIN, min(end_min, series.rps.size) - _AHEAD)


def _part(part: Part, rng: np.random.Generator, *, validation: bool) -> Pool:
    chosen = []
    # A series without a single window has nothing to encode.
    long_enough = [series for series in part.series if series.rps.size > _AHEAD]
    for series in long_enough:
        at = origins(series, int(series.rps.size * part.learned))
        chosen.append(at[_is_validation(at) if validation else ~_is_close_to_validation(at)])
    total = max(1, sum(at.size for at in chosen))
    most = MOST_WINDOWS // _VALIDATION if validation else MOST_WINDOWS
    pieces = []
    for series, at in zip(long_enough, chosen, strict=True):
        count = at.size if total <= most else int(np.ceil(at.size * most / total))
        sampled = at if count == at.size else _sample(series, at, count, rng)
        pieces.append(_encoded(series, sampled))
    # Every window of a part has the same probability, however many windows the part has.
    pool = _joined(pieces)
    return pool._replace(share=np.full(pool.share.size, part.share / max(1, pool.share.size)))


def _sample(series: Series, at: I64, count: int, rng: np.random.Generator) -> I64:
    """`count` origins in order, half of them near announced events if there are enough."""
    near = _is_near(series, at)
    # Without this, one window in 500 has an announced start ahead and announcements are not
    # learned.
    first = min(int(near.sum()), int(_NEAR_SHARE * count))
    chosen = rng.choice(at[near], first, replace=False)
    rest = rng.choice(np.setdiff1d(at, chosen), count - first, replace=False)
    return np.sort(np.concatenate([chosen, rest]))


def _is_near(series: Series, at: I64) -> Mask:
    """By the calendar alone, whether or not the event happens."""
    near = np.zeros(at.size, np.bool_)
    for entry in series.calendar:
        if entry.kind == HOLIDAY:
            continue
        for edge, (before, after) in (
            (entry.start_min, _NEAR_START_MIN),
            (entry.end_min, _NEAR_END_MIN),
        ):
            near |= (at >= edge - before) & (at < edge + after)
    return near


def _is_validation(at: I64) -> Mask:
    return np.asarray(at // _BLOCK_MIN % _VALIDATION == _VALIDATION - 1)


def _is_close_to_validation(at: I64) -> Mask:
    # The margin exceeds the longest horizon, so no target is in both pools.
    return _is_validation(at - _MARGIN_MIN) | _is_validation(at + _MARGIN_MIN) | _is_validation(at)


def _encoded(series: Series, at: I64) -> Pool:
    inputs = encode(series, at)
    ahead = sliding_window_view(series.rps, _AHEAD)[at + 1]
    indices = np.array(AHEAD_MIN) - 1
    # fmax skips missing minutes; a peak is missing only if all minutes until then are.
    highest = np.fmax.accumulate(ahead, axis=1)[:, indices]
    # Busy moments weigh more, as in the scored error.
    weight = inputs.scale + inputs.offset
    return Pool(
        past=inputs.past,
        future=inputs.future,
        static=inputs.static,
        target=_logs(inputs, ahead[:, indices]),
        peak=_logs(inputs, highest),
        weight=(weight / max(float(weight.mean()) if at.size else 1.0, 1e-12)).astype(np.float32),
        share=np.ones(at.size),
    )


def _logs(inputs: NetworkInputs, values: F64) -> F32:
    return np.clip(to_log(inputs, values), -_LARGEST, _LARGEST).astype(np.float32)


def _joined(pieces: list[Pool]) -> Pool:
    return Pool(*(np.concatenate(columns) for columns in zip(*pieces, strict=True)))

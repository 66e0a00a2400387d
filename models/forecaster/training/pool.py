"""Windows to learn from and to judge by, encoded once."""

import hashlib
from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from models.cluster.arrays import F32, F64, I64
from models.forecaster.learned.announcements import HOLIDAY
from models.forecaster.learned.encode import encode
from models.forecaster.learned.inputs import AHEAD_MIN, Inputs, to_log
from models.forecaster.port import LEAST_HISTORY_MIN
from models.forecaster.score.windows import origins as known_origins
from models.forecaster.series import Mask, Series
from models.forecaster.training.corpus import Part

MOST_WINDOWS: Final = 100_000
"""Of one part; beyond it origins are thinned out."""
_LARGEST: Final = 6.0
"""Of a target, as a logarithm."""
_NEAR_START_MIN: Final = (45, 15)
_NEAR_END_MIN: Final = (30, 15)
"""Minutes before and after an announced start or end that are near it: there it shows whether an
event comes, early or late or not at all, and whether it is over."""
_NEAR_SHARE: Final = 0.5
"""Of the windows of a series that is thinned out: what is rare would hardly be learned."""
_BLOCK_MIN: Final = 360
_JUDGED: Final = 10
"""Each so-manieth block of six hours is kept for judging, with nothing learned close to it."""
_MARGIN_MIN: Final = 60
_AHEAD: Final = max(AHEAD_MIN)


class Pool(NamedTuple):
    """N windows."""

    past: F32
    future: F32
    static: F32
    target: F32
    """[N, F] logarithm of the value of each minute ahead; NaN where missing."""
    peak: F32
    """[N, F] the same of the highest minute until then."""
    weight: F32
    """[N] mean 1 in each series: errors count as much as the traffic they are about."""
    share: F64
    """[N] probability of being drawn."""

    @property
    def digest(self) -> str:
        """The same for the same windows: a run goes on with what it began with."""
        found = hashlib.blake2b(digest_size=8)
        for part in self:
            found.update(np.ascontiguousarray(part).data)
        return found.hexdigest()


def pools(parts: Iterable[Part], seed: int) -> tuple[Pool, Pool]:
    """To learn from, and to judge by."""
    drawn = np.random.default_rng(seed)
    learned, judged = [], []
    for part in parts:
        learned.append(_part(part, drawn, judging=False))
        judged.append(_part(part, drawn, judging=True))
    return _joined(learned), _joined(judged)


def origins(series: Series, end_min: int) -> I64:
    """Minutes of a series before `end_min` at which something is known, and can be checked."""
    return known_origins(series, LEAST_HISTORY_MIN, min(end_min, series.rps.size) - _AHEAD)


def _part(part: Part, drawn: np.random.Generator, *, judging: bool) -> Pool:
    chosen = []
    for series in part.series:
        at = origins(series, int(series.rps.size * part.learned))
        chosen.append(at[_is_judged(at) if judging else ~_is_close_to_judged(at)])
    total = max(1, sum(at.size for at in chosen))
    most = MOST_WINDOWS // _JUDGED if judging else MOST_WINDOWS
    pieces = []
    for series, at in zip(part.series, chosen, strict=True):
        kept = at.size if total <= most else int(np.ceil(at.size * most / total))
        some = at if kept == at.size else _some(series, at, kept, drawn)
        pieces.append(_encoded(series, some))
    pool = _joined(pieces)
    return pool._replace(share=np.full(pool.share.size, part.share / max(1, pool.share.size)))


def _some(series: Series, at: I64, count: int, drawn: np.random.Generator) -> I64:
    """So many origins in order, half of them near announced events if there are that many."""
    near = _is_near(series, at)
    first = min(int(near.sum()), int(_NEAR_SHARE * count))
    chosen = drawn.choice(at[near], first, replace=False)
    rest = drawn.choice(np.setdiff1d(at, chosen), count - first, replace=False)
    return np.sort(np.concatenate([chosen, rest]))


def _is_near(series: Series, at: I64) -> Mask:
    """By the calendar alone: whether anything comes of it has no say."""
    near = np.zeros(at.size, np.bool_)
    for entry in series.calendar:
        if entry.kind == HOLIDAY:
            continue
        for turn, (before, after) in (
            (entry.start_min, _NEAR_START_MIN),
            (entry.end_min, _NEAR_END_MIN),
        ):
            near |= (at >= turn - before) & (at < turn + after)
    return near


def _is_judged(at: I64) -> Mask:
    return np.asarray(at // _BLOCK_MIN % _JUDGED == _JUDGED - 1)


def _is_close_to_judged(at: I64) -> Mask:
    return _is_judged(at - _MARGIN_MIN) | _is_judged(at + _MARGIN_MIN) | _is_judged(at)


def _encoded(series: Series, at: I64) -> Pool:
    inputs = encode(series, at)
    ahead = sliding_window_view(series.rps, _AHEAD)[at + 1]
    places = np.array(AHEAD_MIN) - 1
    highest = np.fmax.accumulate(ahead, axis=1)[:, places]
    weight = inputs.scale + inputs.offset
    return Pool(
        past=inputs.past,
        future=inputs.future,
        static=inputs.static,
        target=_logs(inputs, ahead[:, places]),
        peak=_logs(inputs, highest),
        weight=(weight / max(float(weight.mean()) if at.size else 1.0, 1e-12)).astype(np.float32),
        share=np.ones(at.size),
    )


def _logs(inputs: Inputs, values: F64) -> F32:
    return np.clip(to_log(inputs, values), -_LARGEST, _LARGEST).astype(np.float32)


def _joined(pieces: list[Pool]) -> Pool:
    return Pool(*(np.concatenate(columns) for columns in zip(*pieces, strict=True)))

"""The inputs of the network, by name and in order.

All traffic is given as the logarithm of its ratio to the recent level, so that one model serves ten
requests a minute and a million. Names and order are part of a trained model: its card lists them,
and a model with another list is refused.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F32, F64

AHEAD_MIN: Final = (5, 10, 15, 20, 25, 30)
"""Minutes ahead of the decoder's steps; the served horizons are among them."""
PAST_WINDOWS: Final = (
    (120, 180),
    (90, 120),
    (60, 90),
    *((age, age + 10) for age in (50, 40, 30)),
    *((age, age + 5) for age in (25, 20, 15, 10, 5)),
    *((age, age + 1) for age in (4, 3, 2, 1, 0)),
)
"""Windows of past minutes as (youngest age, oldest age), the newest last and finest."""
# `seen` and `judged` are 1 where traffic, or errors and latency, have a value; `under_way` is the
# number of announced events and `promised` the logarithm of their factors. Names are part of
# trained models and cannot change without training again.
PAST: Final = (
    "level",
    "seen",
    "errors",
    "latency",
    "judged",
    "under_way",
    "promised",
)
# `..._change` is the logarithm of a change since the origin, `..._ago` and `..._level` of a level.
# `train.py` finds the inputs of the network's shortcuts by the endings `_change` and `_ago`.
FUTURE: Final = (
    "day_sin",
    "day_cos",
    "half_day_sin",
    "half_day_cos",
    "week_sin",
    "week_cos",
    "day_off",
    "yesterday_change",
    "last_week_change",
    "usual_change",
    "smooth_change",
    "yesterday_level",
    "last_week_level",
    "has_yesterday",
    "has_last_week",
    "half_hour_ago",
    "hour_ago",
    "hours_ago",
    "hours_change",
    "until_next",
    "since_last",
    "under_way",
    "promised",
    "promised_change",
    "precedent_change",
    "precedents",
)
STATIC: Final = (
    "day_level",
    "hour_level",
    "roughness",
    "idle",
    "step",
    "history",
    "last_skill",
    "hour_skill",
    "day_skill",
    "announces",
    "priority_0",
    "priority_1",
    "priority_2",
    "priority_3",
    "domain_0",
    "domain_1",
    "domain_2",
    "domain_3",
    "domain_4",
)
"""Character of the recent traffic; priority and domain where they are given."""


class NetworkInputs(NamedTuple):
    """B origins, P past windows, F minutes ahead."""

    past: F32
    """[B, P, len(PAST)]."""
    future: F32
    """[B, F, len(FUTURE)]."""
    static: F32
    """[B, len(STATIC)]."""
    scale: F64
    """[B] recent level; NaN where the last day has no value, so that no forecast is possible."""
    offset: F64
    """[B] added to values and scale before taking logarithms."""


def joined(parts: Sequence[NetworkInputs]) -> NetworkInputs:
    """Concatenate along the origins."""
    return NetworkInputs(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def to_log(inputs: NetworkInputs, values: F64) -> F64:
    """Values [B, ...] as the logarithms that the network works with."""
    shape = (-1,) + (1,) * (values.ndim - 1)
    offset, scale = inputs.offset.reshape(shape), inputs.scale.reshape(shape)
    logs: F64 = np.log((values + offset) / (scale + offset))
    return logs


def from_log(inputs: NetworkInputs, logs: F64) -> F64:
    """The inverse of `to_log`, never negative."""
    shape = (-1,) + (1,) * (logs.ndim - 1)
    offset, scale = inputs.offset.reshape(shape), inputs.scale.reshape(shape)
    # The offset can make a small value slightly negative.
    values: F64 = np.maximum(np.exp(logs) * (scale + offset) - offset, 0.0)
    return values


def flat(inputs: NetworkInputs) -> F32:
    """[B, K] all inputs in one row, for models without a time axis."""
    rows = inputs.static.shape[0]
    parts = (inputs.past.reshape(rows, -1), inputs.future.reshape(rows, -1), inputs.static)
    return np.concatenate(parts, axis=1)

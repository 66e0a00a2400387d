"""From a network's answer to a residual: ranges, broken numbers, and the guard of P0.

Whatever a network answers, the residual is within the ranges of the contract; what is not a number
leaves that domain to the heuristic. A weighted objective can be lowered by selling the highest
priority for the others, so a policy may only add to what that priority gets.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from models.cluster import rows
from models.cluster.arrays import F32, F64, I32, Mask
from models.control.residual import Residual, neutral
from models.features.table import APP
from models.policies.contract import NEED_SPAN, OUTPUTS, Tensor

_RANGES: Final = {tensor.name: tensor for tensor in OUTPUTS}
_FACTORS: Final = ("headroom", "urgency", "comfort")
_WEIGHTS: Final = ("pods", "nodes")

_MISSING: Final = APP.at("missing")

Answer = Mapping[str, NDArray[np.float32]]


def residual_of(answer: Answer, priority: I32) -> Residual:
    """The residual of a network's outputs, by name; `priority` [D] is what domains declare.

    An output that is missing changes nothing, and so does one of a wrong shape for its column.
    """
    highest = priority == priority.min()
    environments = next(iter(answer.values())).shape[0]
    found: dict[str, Any] = {
        name: _bounded(values, _RANGES[name], highest)
        for name, values in answer.items()
        if name in _RANGES
    }
    return neutral(environments)._replace(**found)


def need_of(answer: F32, status: I32, features: F32, priority: I32) -> F32:
    """[E, A] factors on the need of apps, from the network's output of the same shape.

    `features` [E, APP, A]. An app without a sample is left to the heuristic: what the network saw
    of it is old.
    """
    known = np.isfinite(answer) & (features[:, _MISSING] == 0) & (status[:, rows.ACTIVE] == 1)
    factor = np.where(known, np.clip(answer, 1.0 / NEED_SPAN, NEED_SPAN), 1.0)
    highest = (priority == priority.min())[status[:, rows.DOMAIN]]
    return np.where(highest, np.maximum(factor, 1.0), factor).astype(np.float32)


def _bounded(values: NDArray[np.float32], tensor: Tensor, highest: Mask) -> F64:
    nothing = 1.0 if tensor.name not in _WEIGHTS else 0.0
    known = np.where(np.isfinite(values), values.astype(np.float64), nothing)
    within: F64 = np.clip(known, tensor.low, tensor.high)
    if tensor.name not in (*_FACTORS, *_WEIGHTS):
        return within
    guarded = highest[:, None] if tensor.name in _WEIGHTS else highest
    return np.where(guarded, np.maximum(within, nothing), within)

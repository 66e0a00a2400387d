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
from models.control.residual import AppFactors, Residual, neutral, no_factors
from models.policies.contract import OUTPUTS, SOLDIER_OUTPUTS, Tensor
from models.policies.soldier_inputs import Apps

_RANGES: Final = {tensor.name: tensor for tensor in OUTPUTS}
_FACTORS: Final = ("headroom", "urgency", "comfort")
_WEIGHTS: Final = ("pods", "nodes")

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


def factors_of(answer: Answer, apps: Apps, status: I32, priority: I32) -> AppFactors:
    """The factors of each app, from those of its member; an output that is missing changes nothing.

    An app without a sample is left to the heuristic: what the network saw of it is old.
    """
    highest = (priority == priority.min())[status[:, rows.DOMAIN]]
    found: dict[str, F32] = no_factors(status.shape[0])._asdict()
    for port in SOLDIER_OUTPUTS:
        if port.name not in answer:
            continue
        of_members = answer[port.name].reshape(status.shape[0], -1)
        asked = np.take_along_axis(of_members, apps.member, axis=1)
        known = apps.known & np.isfinite(asked)
        factor = np.where(known, np.clip(asked, port.low, port.high), 1.0)
        found[port.name] = np.where(highest, np.maximum(factor, 1.0), factor).astype(np.float32)
    return AppFactors(**found)


def _bounded(values: NDArray[np.float32], tensor: Tensor, highest: Mask) -> F64:
    nothing = 1.0 if tensor.name not in _WEIGHTS else 0.0
    known = np.where(np.isfinite(values), values.astype(np.float64), nothing)
    within: F64 = np.clip(known, tensor.low, tensor.high)
    if tensor.name not in (*_FACTORS, *_WEIGHTS):
        return within
    guarded = highest[:, None] if tensor.name in _WEIGHTS else highest
    return np.where(guarded, np.maximum(within, nothing), within)

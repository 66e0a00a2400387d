"""Whether those that a candidate decides for get worse than the others: observed, not estimated.

The canary is drawn by hash, but domains differ, and a few apps may be those that were in trouble
anyway. So changes are compared: each one's share of ticks at risk in a stage of the canary, less
its share in shadow, when the incumbent decided for all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

LEAST: Final = 0.05
"""Changes by less than this share of the time are noise, however alike the others are."""
A_WHOLE: Final = 1.0
"""By how much one may change by chance: an app gets into trouble whoever decides for it."""
A_PART: Final = 0.1
"""The same of a domain, whose risk is the mean of its apps."""
_ERRORS: Final = 3.0
"""Standard errors beyond the others' mean change. Four stages are judged, of many apps: two would
take sound candidates back."""


@dataclass(frozen=True)
class Burn:
    """Shares of time at risk, by id. Saved with the rollout."""

    ids: tuple[str, ...] = ()
    before: tuple[float, ...] = ()
    """In shadow; empty until that has ended, and if others were there then."""
    total: tuple[float, ...] = ()
    """Sum over the decisions of the present stage."""
    decisions: int = 0


def added(burn: Burn, ids: Sequence[str], risk: Sequence[float]) -> Burn:
    """With what was observed in a decision; other ids start over, without a comparison."""
    ids = tuple(ids)
    if burn.ids != ids:
        burn = Burn(ids, total=(0.0,) * len(ids))
    total = tuple((np.array(burn.total) + np.array(risk)).tolist())
    return replace(burn, total=total, decisions=burn.decisions + 1)


def after_shadow(burn: Burn) -> Burn:
    """The first canary begins: what was seen until now is what later stages are compared with."""
    return replace(next_stage(burn), before=tuple(_shares(burn).tolist()))


def next_stage(burn: Burn) -> Burn:
    """Another stage begins."""
    return replace(burn, total=(0.0,) * len(burn.ids), decisions=0)


def problem(burn: Burn, chosen: NDArray[np.bool_], chance: float) -> str:
    """Why the canary is worse off than the others; empty if it is not, or if nobody knows.

    `chance` is by how much one may change by chance.
    """
    if not burn.before or not burn.decisions or chosen.all() or not chosen.any():
        return ""
    change = _shares(burn) - np.array(burn.before)
    ours, others = change[chosen], change[~chosen]
    # With one unlucky one beside them: where nobody else was at risk, one of a few apps would
    # look like a difference.
    spread = max(float(np.append(others, chance).std(ddof=1)), LEAST)
    error = spread * float(np.sqrt(1.0 / ours.size + 1.0 / others.size))
    worse = float(ours.mean() - others.mean())
    if worse <= max(LEAST, _ERRORS * error):
        return ""
    return (
        f"at risk {ours.mean():+.0%} of the time where it decides, {others.mean():+.0%} elsewhere"
    )


def _shares(burn: Burn) -> NDArray[np.float64]:
    return np.array(burn.total) / max(burn.decisions, 1)

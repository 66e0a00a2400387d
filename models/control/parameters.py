"""The tunable numbers of the heuristic, each with its unit, meaning and range.

The defaults here are not in force: `tuned.json` overrides them in services and benchmarks.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I32
from models.control.report import BEARABLE
from models.control.sizing import MODEST_S, Damping

# Not among RANGES: chosen by hand on the shipped scenarios; no record compares other values.
_ABOVE_TARGET: Final = 1.2
"""Utilisation over the target from which an app is at risk, where that is above `risk`."""
_MOST_RISK: Final = 0.93
"""Highest utilisation from which an app of P0 or P1 is at risk."""
_PROTECTED: Final = 1
"""The lowest priority whose apps at risk take back what they released."""
_RESTING_FACTOR: Final = 3.0
"""Factor on the dead band of a lower-priority app that has just changed: it would turn back and
forth otherwise."""
_FORESEEN: Final = 0.78
"""Utilisation at which the highest priority meets forecast load."""


class Parts(NamedTuple):
    """Parts that an ablation can leave out, to measure what each is worth."""

    budget: bool = True
    """Budgets limit increases, and domains give way."""
    coordination: bool = True
    """One node request per pool; without it, each pending pod requests its own node."""
    at_risk: bool = True
    """Apps at risk grow even if they have just given way."""
    vertical: bool = True
    """Pods are resized."""
    damping: bool = True
    """Dead bands, filter, window and cool-down apply."""
    breaker: bool = True
    """Breakers hold changes, and roll back those that did harm."""


class Parameters(NamedTuple):
    """Utilisation is relative to the CPU use at which an app is full, declared and then learned."""

    target_p0: float = 0.52
    """Utilisation that P0 apps are sized for: the rest absorbs unannounced load."""
    target_p1: float = 0.64
    target_p2: float = 0.8
    target_p3: float = 0.88
    surge_target: float = 0.65
    """Utilisation for load above the usual: headroom is there to be used."""
    reserve: float = 0.065
    """Share of the capacity that belongs to no domain; overdrafts come out of it."""
    dead_band_out: float = 0.05
    """An app grows when it needs this share more than it has."""
    dead_band_in: float = 0.2
    """An app shrinks when it needed this share less than it has, for the whole window."""
    margin: float = 0.033
    """Share that a change adds to the need, so that the next small rise needs no change."""
    smoothing: float = 0.5
    """Weight of a tick in the filtered load; jumps pass unfiltered."""
    risk: float = 0.85
    """Utilisation from which an app is at risk: it grows even while it gives way to others."""
    kept_back: float = 0.07
    """How far below `risk` apps stay when they release pods to others."""
    headroom: float = 0.04
    """Share that the two highest priorities have beyond their targets at least, while cores are
    spare: the first to go when they are not. Unsure forecasts bring more, up to a tenth."""
    node_spare: float = 0.1
    """Nodes kept free above those that pods fill, as a share of them: what a surge or a lost node
    needs before the cloud delivers more, and what placing pods one by one cannot fill."""
    cushion_p0: float = 0.0
    """Share that P0 has beyond its target while P0 and P1 have what their present work needs: what
    nobody announced is met by pods that run. Other than headroom it may take what is spare."""
    cushion_p1: float = 0.0
    """The same of P1."""
    arrival: float = 0.015
    """Nodes that the cloud is counted on to deliver per minute, as a share of those in use. What
    it cannot deliver until a forecast rise is requested earlier."""

    def target(self, priority: I32) -> F64:
        """[D] of domains with these priorities."""
        by_priority = np.array([self.target_p0, self.target_p1, self.target_p2, self.target_p3])
        return by_priority[priority]

    def cushion(self, priority: I32) -> F64:
        """[D] of domains with these priorities."""
        by_priority = np.array([self.cushion_p0, self.cushion_p1, 0.0, 0.0])
        return by_priority[priority]

    def surge_level(self, priority: I32) -> F64:
        """[D] utilisation at which domains meet load above the usual."""
        level: F64 = np.maximum(self.surge_target, self.target(priority))
        return level

    def foreseen_level(self, priority: I32) -> F64:
        """[D] utilisation at which domains meet forecast load.

        Higher than for present load: announcements exaggerate, and pods prepared in vain are
        missing elsewhere.
        """
        level = np.where(priority == priority.min(), _FORESEEN, BEARABLE)
        return np.maximum(self.surge_level(priority), level)

    def damping(self, priority: I32, parts: Parts, tick_s: int) -> Damping:
        """The parameters as the Soldiers' kernels take them."""
        damped = float(parts.damping)
        # A domain that is sized for a high utilisation is not at risk when it reaches it.
        risk = np.clip(self.target(priority) * _ABOVE_TARGET, self.risk, _MOST_RISK)
        return Damping(
            dead_band_out=np.float32(self.dead_band_out * damped),
            resting_factor=np.where(priority <= _PROTECTED, 1.0, _RESTING_FACTOR).astype(
                np.float32
            ),
            dead_band_in=np.float32(self.dead_band_in * damped),
            margin=np.float32(self.margin * damped),
            # Infinite: apps of lower priority never grow early for being at risk.
            risk=np.where((priority <= _PROTECTED) & parts.at_risk, risk, np.inf).astype(
                np.float32
            ),
            # Well below risk: an app that is at risk after giving way would grow again at once.
            give_way_level=(risk - self.kept_back).astype(np.float32),
            use_window=parts.damping,
            rest_first=(priority < priority.max()).astype(np.int8),
            modest_ticks=MODEST_S // tick_s,
        )


# The others are at what an earlier search of all of them found.
RANGES: Final[dict[str, tuple[float, float]]] = {
    "target_p0": (0.44, 0.7),
    "target_p1": (0.44, 0.75),
    "target_p2": (0.65, 0.9),
    "target_p3": (0.7, 0.95),
    "surge_target": (0.45, 0.85),
    "reserve": (0.03, 0.12),
    "dead_band_in": (0.08, 0.4),
    "risk": (0.72, 0.93),
    "node_spare": (0.02, 0.25),
    "cushion_p0": (0.0, 0.5),
    "cushion_p1": (0.0, 0.4),
}
"""Where the calibration searches."""

"""The discount follows change points: shorter when the world has just turned worse, longer again.

CUSUM on the returns of the iterations. A curriculum, randomised worlds and a rising price change
what training sees, and a critic that looks far ahead is then wrong for long.
"""

import math
from typing import Final

import msgspec

LOW: Final = 0.5
HIGH: Final = 0.995
STEP: Final = 0.02
"""Change of the discount at full confidence."""
THRESHOLD: Final = 3.0
"""Drift in standard deviations that is a change point."""
CONFIDENT: Final = 0.8
"""Least confidence that changes the discount."""
SLACK: Final = 0.5
"""Standard deviations per iteration that count as no drift."""
MEMORY: Final = 0.1
"""Share of a new return in mean and variance."""
SETTLE: Final = 3
"""Iterations before anything is told, and for which the clip is wider after a change."""
WIDE_CLIP: Final = 0.3


class Discount(msgspec.Struct, frozen=True, kw_only=True):
    """The discount, and what CUSUM remembers."""

    value: float
    mean: float = 0.0
    variance: float = 0.0
    rise: float = 0.0
    fall: float = 0.0
    """Drift of the returns in standard deviations, upwards and downwards."""
    seen: int = 0
    since: int = 1_000_000
    """Iterations since the last change."""

    @property
    def changed(self) -> bool:
        """Whether this iteration's returns were a change point: its batch is of another world."""
        return self.since == 0

    def clip(self, usual: float) -> float:
        """The clip of PPO: wider for some batches after a change, to get over it sooner."""
        return max(usual, WIDE_CLIP) if 0 < self.since <= SETTLE else usual

    def updated(self, returns: float) -> "Discount":
        """After an iteration with this mean of returns."""
        known = self.seen >= SETTLE
        spread = math.sqrt(self.variance)
        apart = (returns - self.mean) / spread if known and spread > 0.0 else 0.0
        rise, fall = max(0.0, self.rise + apart - SLACK), max(0.0, self.fall - apart - SLACK)
        highest = max(rise, fall)
        confidence = 1.0 - math.exp(-0.5 * highest)
        if highest < THRESHOLD or confidence < CONFIDENT:
            return self._learned(returns, rise, fall)
        # A better world allows to look farther ahead.
        direction = 1.0 if rise > fall else -1.0
        value = min(HIGH, max(LOW, self.value + direction * STEP * confidence))
        # What follows is compared with the new world, not with the old one. It is as noisy, as far
        # as anybody knows: from a few returns alone the noise would look like the next change.
        return Discount(value=value, mean=returns, variance=self.variance, seen=1, since=0)

    def _learned(self, returns: float, rise: float, fall: float) -> "Discount":
        share = max(MEMORY, 1.0 / (self.seen + 1))
        apart = returns - self.mean
        return Discount(
            value=self.value,
            mean=self.mean + share * apart,
            variance=(1.0 - share) * (self.variance + share * apart**2),
            rise=rise,
            fall=fall,
            seen=self.seen + 1,
            since=self.since + 1,
        )

"""The price of a constraint: how much dearer node-hours have to be for a policy to keep to its cap.

A Lagrange multiplier for a constrained Markov decision process. Left alone it explodes when the
constraint is violated for long, and drowns the reward. Three guards: the violation is filtered, a
price that is no longer needed is halved, and its steps decay. It only speeds learning up: what
protects the cluster are masks and projections, with or without it.
"""

from typing import Final

import msgspec

FILTER: Final = 0.3
"""Share of a new violation in the filtered one. An update is a whole iteration of thousands of
decisions, so it needs less filtering than one after every step."""
RATE: Final = 6.0
"""First step: price per violation."""
DECAY: Final = 0.97
"""Factor on the step after each update."""
TOLERANCE: Final = 0.01
"""Use beyond the cap that counts as none, and as much below it as needless."""
CALM: Final = 3
"""Updates in a row that stay needlessly below the cap, after which the price is halved. Not those
that just keep to it: there the price is what it should be."""


class Multiplier(msgspec.Struct, frozen=True, kw_only=True):
    """The price and what its guards remember."""

    price: float = 0.0
    """Added to the weight of node-hours in the reward."""
    filtered: float = 0.0
    calm: int = 0
    """Updates in a row that stayed needlessly below the cap."""
    updates: int = 0

    def updated(self, violation: float) -> "Multiplier":
        """After an iteration that used `violation` more than its cap; negative is below it."""
        filtered = (1.0 - FILTER) * self.filtered + FILTER * violation
        price = max(0.0, self.price + RATE * DECAY**self.updates * filtered)
        calm = self.calm + 1 if violation < -TOLERANCE else 0
        if calm == CALM:
            price, calm = 0.5 * price, 0
        return Multiplier(price=price, filtered=filtered, calm=calm, updates=self.updates + 1)

"""HPA with a target that was tuned like everybody else's numbers.

Only the target: the downscale window and the rates stay at the API's defaults, as most HPAs
have them.
"""

from typing import Final, NamedTuple

from models.baselines.hpa.simulated import Hpa
from models.sim.apps import declare
from models.sim.world import World


class Parameters(NamedTuple):
    """What is tuned."""

    target: float = 0.75
    """CPU use wanted, as a share of the use at which an app saturates."""


RANGES: Final[dict[str, tuple[float, float]]] = {"target": (0.4, 0.95)}


def hpa_calibrated_of(world: World, parameters: Parameters | None = None) -> Hpa:
    """A fresh HPA per app of the world."""
    chosen = parameters or Parameters()
    inventory = declare(world.population, world.cluster)
    return Hpa(inventory, world.layout.pools, inventory.tick_s, target=chosen.target)

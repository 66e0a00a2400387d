"""The heuristic for a world, complete or without one of its parts.

A module of its own, because tuning hashes the code behind a family's factory: beside the other
families, a change to any baseline would invalidate the heuristic's results.
"""

from typing import Final

from models.control.hierarchy import Heuristic
from models.control.parameters import Parameters, Parts
from models.control.tuned import HEURISTIC, tuned_parameters
from models.sim.apps import declare
from models.sim.world import World

NAME: Final = HEURISTIC
ABLATIONS: Final = {f"no-{part}": Parts()._replace(**{part: False}) for part in Parts._fields}
"""Parts by suffix of the entrant's name."""


def heuristic_of(
    world: World, parameters: Parameters | None = None, parts: Parts | None = None
) -> Heuristic:
    """A new heuristic for the apps and pools of the world."""
    inventory = declare(world.population, world.cluster)
    return Heuristic(inventory, world.layout.pools, parameters or Parameters(), parts or Parts())


def ablated_of(part: str, world: World) -> Heuristic:
    """The tuned heuristic without one part."""
    return heuristic_of(world, tuned_parameters(), ABLATIONS[part])

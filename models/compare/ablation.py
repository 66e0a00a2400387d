"""The heuristic for a world, whole or without one of its parts."""

from typing import Final

from models.control.hierarchy import Heuristic
from models.control.parameters import Parameters, Parts
from models.control.tuned import tuned
from models.sim.apps import declare
from models.sim.world import World

NAME: Final = "heuristic"
ABLATIONS: Final = {f"no-{part}": Parts()._replace(**{part: False}) for part in Parts._fields}
"""By the suffix that names them."""


def heuristic_of(
    world: World, parameters: Parameters | None = None, parts: Parts | None = None
) -> Heuristic:
    """A heuristic for the apps and pools of the world."""
    inventory = declare(world.population, world.cluster)
    return Heuristic(inventory, world.layout.pools, parameters or Parameters(), parts or Parts())


def ablated_of(part: str, world: World) -> Heuristic:
    """The tuned heuristic without a part."""
    return heuristic_of(world, Parameters(**tuned(NAME)), ABLATIONS[part])

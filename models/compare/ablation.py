"""The heuristic for a world, complete or without some of its parts.

Budgets cover ready nodes. Without coordination pods request nodes themselves, but under budgets no
pod is planned beyond the ready nodes, so none waits and none requests: `no-coordination` alone
shows a deadlock. What coordination is worth shows between `no-budget` and
`no-budget+no-coordination`, what budgets are worth between the complete heuristic and `no-budget`.

A module of its own, because tuning hashes the code behind a family's factory: beside the other
families, a change to any baseline would invalidate the heuristic's results.
"""

from typing import Final

from models.control.hierarchy import Heuristic
from models.control.parameters import Parameters, Parts
from models.control.tuned import HEURISTIC, tuned_parameters
from models.sim.world import World

NAME: Final = HEURISTIC
ABLATIONS: Final = tuple(f"no-{part}" for part in Parts._fields)
"""Suffixes of the entrant's name; several are joined by a plus."""


def heuristic_of(
    world: World, parameters: Parameters | None = None, parts: Parts | None = None
) -> Heuristic:
    """A new heuristic for the apps and pools of the world."""
    inventory = world.inventory
    return Heuristic(inventory, world.layout.pools, parameters or Parameters(), parts or Parts())


def ablated_of(left_out: tuple[str, ...], world: World) -> Heuristic:
    """The tuned heuristic without the parts of these suffixes."""
    parts = Parts()._replace(**{suffix.removeprefix("no-"): False for suffix in left_out})
    return heuristic_of(world, tuned_parameters(), parts)

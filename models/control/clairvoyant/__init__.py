"""The limit that no controller can pass, and the world it is made for."""

from models.control.clairvoyant.controller import Clairvoyant
from models.sim.world import World


def clairvoyant_of(world: World) -> Clairvoyant:
    """One that knows this world's future. Pods are best placed by priority, without preemption."""
    return Clairvoyant(world)

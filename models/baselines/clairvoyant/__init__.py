"""An estimate of how good a controller could be that knew the future."""

from models.baselines.clairvoyant.controller import Clairvoyant
from models.sim.world import World


def clairvoyant_of(world: World) -> Clairvoyant:
    """One that knows this world's future. Pods are best placed by priority, without preemption."""
    return Clairvoyant(world)

"""The system on the memory bus, made from the same request as the one on Kafka."""

from rich.console import Console

from models.jit import is_compiled
from models.sim.tick import advance
from services.actuator.settings import Modes
from services.devcluster.lifecycle import COMPILING
from services.devcluster.memory import MemorySystem
from services.devcluster.record import Scene
from services.devcluster.request import Request, scene_of
from services.simcluster.app import compile_kernels, world_of
from services.simcluster.settings import Settings


def memory_system(request: Request, console: Console) -> tuple[MemorySystem, Scene]:
    """Before its first tick, with the kernels of the world compiled."""
    cluster, scenario = request.described()
    compiled = is_compiled(advance)
    console.print("building the world" if compiled else COMPILING)
    settings = Settings(
        scenario=request.scenario,
        seed=request.seed,
        cluster=str(request.cluster or ""),
        physics=str(request.physics or ""),
        apps=request.apps or 0,
    )
    world = world_of(settings)
    compile_kernels(world)
    system = MemorySystem(world, request.forecast, Modes(request.mode))
    return system, scene_of(request, cluster, scenario)

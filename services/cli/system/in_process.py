"""The system on the memory bus, made from the same request as the one on Kafka."""

from rich.console import Console

from models.jit import is_compiled
from models.sim.tick import advance
from services.actuator.permission import Modes
from services.cli.system.launch import COMPILING
from services.cli.system.memory import MemorySystem
from services.cli.system.record import Scene
from services.cli.system.request import Request, scene_of
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
        apps=request.apps or 0,
    )
    world = world_of(settings)
    compile_kernels(world)
    system = MemorySystem(world, request.forecast, Modes(request.mode))
    return system, scene_of(request, cluster, scenario)

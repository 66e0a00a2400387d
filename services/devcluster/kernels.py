"""Compiles the kernels of every service and of the simulated cluster before they are needed.

Each service compiles its own at its start. Where nothing is cached that takes minutes, and services
that start together compile what they share once each. An image has them compiled when it is built.
"""

import time
from collections.abc import Callable
from importlib import import_module
from multiprocessing import get_context
from typing import Final

from models.jit import count_compiled, is_compiled
from models.sim.tick import advance
from services._kit.handler import Service
from services._kit.settings import KitSettings
from services.devcluster.specs import DECIDING
from services.simcluster.app import compile_kernels, world_of
from services.simcluster.settings import Settings

for _name in DECIDING:
    import_module(f"services.{_name}.app")  # defines the kernels, so that they can be counted

_APPS: Final = 60
"""Of the world that is stepped once; kernels are the same for any number."""
_POLL_S: Final = 1.0


def are_compiled() -> bool:
    """Whether the kernels that take longest are in the cache."""
    return is_compiled(advance)


def compile_all(show: Callable[[int], None]) -> None:
    """Compile what is missing, in two processes; `show` gets how many kernels are compiled."""
    # Spawned: a forked process would share the threads of the compiler.
    spawn = get_context("spawn").Process
    workers = [spawn(target=work, daemon=True) for work in (_step_world, _prepare_services)]
    try:
        for worker in workers:
            worker.start()
        while any(worker.is_alive() for worker in workers):
            time.sleep(_POLL_S)
            show(count_compiled()[0])
    finally:
        # After Ctrl-C nobody waits for them.
        for worker in workers:
            worker.kill()
            worker.join()
    if any(worker.exitcode for worker in workers):
        raise RuntimeError("kernels could not be compiled, see above")


def _step_world() -> None:
    compile_kernels(world_of(Settings(scenario="calm", apps=_APPS)))


def _prepare_services() -> None:
    for name in DECIDING:
        own = import_module(f"services.{name}.settings").Settings()
        built = import_module(f"services.{name}.app").build(KitSettings(), own)
        (built.handler if isinstance(built, Service) else built).prepare()

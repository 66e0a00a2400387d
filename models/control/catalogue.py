"""The controllers that can be named on a command line."""

import difflib
from collections.abc import Callable
from typing import Any

from models.control.controller import Controller
from models.control.hpa import Hpa
from models.sim.describe.errors import InputError
from models.sim.inventory import declare
from models.sim.world import World


def hpa_of(world: World) -> Hpa:
    """A fresh HPA per app of the world."""
    return Hpa(
        declare(world.population, world.cluster), world.layout.pools, world.cluster.tick_seconds
    )


CONTROLLERS: dict[str, Callable[[World], Controller[Any]]] = {"hpa": hpa_of}


def check_controller(name: str) -> None:
    """Refuse a name that is not in the catalogue, before a world is made for it."""
    if name not in CONTROLLERS:
        close = difflib.get_close_matches(name, CONTROLLERS, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        known = ", ".join(CONTROLLERS)
        raise InputError(f"controller: {name}: {hint}expected one of {known}")


def make_controller(name: str, world: World) -> Controller[Any]:
    """The controller of that name, for the apps and pools of `world`."""
    check_controller(name)
    return CONTROLLERS[name](world)

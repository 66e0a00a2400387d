"""The entrants of every comparison by name: a controller, its forecaster, and its scheduler."""

import difflib
import importlib
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from models.control.controller import Controller
from models.control.hpa import Hpa
from models.control.run import run
from models.forecaster.port import Forecaster
from models.sim.apps import Population
from models.sim.describe.config import Cluster
from models.sim.describe.errors import InputError
from models.sim.describe.scenario import Scenario
from models.sim.inventory import declare
from models.sim.outcome.results import Decisions
from models.sim.world import World


class Scheduling(NamedTuple):
    """How pods are placed under an entrant."""

    order: Literal["fifo", "priority"] = "fifo"
    preemption: bool = False


class Entrant(NamedTuple):
    """What a name stands for. Anybody's controller is entered by one of these."""

    controller: Callable[[World], Controller[Any]]
    forecaster: Callable[[World], Forecaster[Any]] | None = None
    scheduling: Scheduling = Scheduling()


class Contest(NamedTuple):
    """A world with the controller and the forecaster that are to run it."""

    world: World
    controller: Controller[Any]
    forecaster: Forecaster[Any] | None

    def play(self, on_tick: Callable[[World], None] | None = None) -> Decisions:
        """Run the world to its end."""
        return run(self.world, self.controller, self.forecaster, on_tick)


def hpa_of(world: World) -> Hpa:
    """A fresh HPA per app of the world."""
    return Hpa(
        declare(world.population, world.cluster), world.layout.pools, world.cluster.tick_seconds
    )


ENTRANTS: dict[str, Entrant] = {"hpa": Entrant(hpa_of)}


def entrant_of(name: str) -> Entrant:
    """The entrant of that name; `package.module:attribute` names one of somebody's own."""
    if name in ENTRANTS:
        return ENTRANTS[name]
    if ":" in name:
        return _import(name)
    close = difflib.get_close_matches(name, ENTRANTS, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    known = ", ".join(ENTRANTS)
    raise InputError(
        f"controller: {name}: {hint}expected one of {known}, or package.module:attribute"
    )


def enter(
    name: str,
    cluster: Cluster,
    scenario: Scenario,
    seeds: Sequence[int],
    population: Population | None = None,
) -> Contest:
    """A world for the entrant, on the scheduler that belongs to it, ready to be played."""
    entrant = entrant_of(name)
    world = World(with_scheduling(cluster, entrant.scheduling), scenario, seeds, population)
    forecaster = entrant.forecaster(world) if entrant.forecaster is not None else None
    return Contest(world, entrant.controller(world), forecaster)


def with_scheduling(cluster: Cluster, scheduling: Scheduling) -> Cluster:
    """The cluster with another order of placing pods."""
    scheduler = msgspec.structs.replace(
        cluster.scheduler, order=scheduling.order, preemption=scheduling.preemption
    )
    return msgspec.structs.replace(cluster, scheduler=scheduler)


def _import(name: str) -> Entrant:
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(f"controller: {name}: cannot be imported: {error}") from error
    if not isinstance(found, Entrant):
        raise InputError(
            f"controller: {name}: expected an Entrant of models.control.catalogue, "
            f"got {type(found).__name__}"
        )
    return found

"""A run of the heuristic up to a minute, saved there, and continued as often as one likes.

Blame and counterfactuals decide otherwise from the saved state on; what happened before is the
same, tick by tick.
"""

from typing import Any, Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64
from models.compare.catalogue import Entrant
from models.compare.run import Run
from models.control.hierarchy import Heuristic, HeuristicState
from models.forecaster.port import Forecaster, ticks_per_minute
from models.inputs.errors import InputError
from models.sim.accounting import NODE_TICKS
from models.sim.config.physics import SimCluster, with_scheduling
from models.sim.config.scenario import Scenario
from models.sim.population.generate import generate
from models.sim.world import World

_HOUR_S: Final = 3600.0


class Played(NamedTuple):
    """Which run is meant; each seed is an environment of its own."""

    cluster: SimCluster
    scenario: Scenario
    seeds: tuple[int, ...]
    entrant: Entrant


class Totals(NamedTuple):
    """Since the end of the warm-up. E environments, D domains."""

    minutes: F64
    """[E, D] violation minutes, not weighted."""
    node_hours: F64
    """[E]."""


class Fork:
    """A run at the beginning of a minute."""

    def __init__(self, played: Played, minute: int) -> None:
        self.cluster = with_scheduling(played.cluster, played.entrant.scheduling)
        self.population = generate(self.cluster)
        self.world = World(self.cluster, played.scenario, played.seeds, self.population)
        self._per_minute = ticks_per_minute(self.cluster.tick_seconds)
        _check_minute(minute, played.scenario)
        given = played.entrant.controller(self.world)
        # A subclass decides in a step of its own, in which no part can be exchanged.
        if type(given) is not Heuristic:
            raise InputError(
                f"controller: {given.name}: expected the heuristic, with a policy or without one"
            )
        self.given = given
        make = played.entrant.forecaster
        self.forecaster: Forecaster[Any] | None = None if make is None else make(self.world)
        run: Run[HeuristicState] = Run(self.world, given, self.forecaster)
        self.begin = self.tick_of(minute)
        while self.world.tick < self.begin:
            run.step()
        self._saved = run.save()

    def resume(
        self, controller: Heuristic, forecaster: Forecaster[Any] | None, world: World | None = None
    ) -> Run[HeuristicState]:
        """The run at the fork, with what decides from now on; in another world of its shape."""
        run: Run[HeuristicState] = Run(world or self.world, controller, forecaster)
        (run.restore if forecaster is self.forecaster else run.fork)(self._saved)
        return run

    def tick_of(self, minute: int) -> int:
        """Of the first tick of a minute after the warm-up; not before its end."""
        return self.world.timeline.warmup_ticks + max(0, minute) * self._per_minute


def totals(world: World) -> Totals:
    """What the accounts of a world say now."""
    accounts = world.accounts
    # The accounts start from zero in the first tick after the warm-up.
    begun = float(world.tick > world.timeline.warmup_ticks)
    hours = accounts.totals[:, NODE_TICKS] * world.cluster.tick_seconds / _HOUR_S
    return Totals(begun * accounts.domain_minutes, begun * hours)


def weights_of(world: World) -> F64:
    """[D] weights of the objective."""
    found: F64 = np.array(list(world.cluster.priority_weights.values()))[world.inventory.priority]
    return found


def _check_minute(minute: int, scenario: Scenario) -> None:
    if minute >= scenario.length_minutes:
        raise InputError(
            f"minute {minute}: {scenario.name} ends after {scenario.length_minutes:g} minutes"
        )

"""The entrants of every comparison by name: a controller, its forecaster, and its scheduler.

`hpa:0.6` is HPA at that target, `heuristic:calendar` the heuristic with that forecaster,
`policy:calendar` the same with the policies that ship, and `package.module:attribute` a user's own
`Entrant`. `NAME~0.9` has all targets of utilisation times
0.9, which costs more and violates less. `NAME@priority` is an entrant on another scheduler, which
separates the effect of the scheduler from that of the controller.
"""

import importlib
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from models.baselines.hpa.simulated import Parameters, hpa_of
from models.compare.ablation import ABLATIONS, ablated_of
from models.compare.families import FAMILIES, HEURISTIC, at_knob, calibrated, family_of
from models.compare.policies import POLICY, policy_of
from models.compare.run import Run, run
from models.control.controller import Controller
from models.forecaster.port import Forecaster
from models.forecaster.simulated.catalogue import FORECASTERS, NONE, forecaster_of
from models.inputs.errors import InputError, did_you_mean
from models.sim.apps import Population
from models.sim.config.physics import SCHEDULINGS, Scheduling, SimCluster, with_scheduling
from models.sim.config.scenario import Scenario
from models.sim.results.summary import Decisions
from models.sim.world import World

_AT_TARGET: Final = re.compile(r"hpa:(0\.\d+)")


class Entrant(NamedTuple):
    """What a name stands for. A user's own controller is entered as one of these."""

    controller: Callable[[World], Controller[Any]]
    forecaster: Callable[[World], Forecaster[Any]] | None = None
    scheduling: Scheduling = Scheduling()


class Match(NamedTuple):
    """A world with its controller and forecaster."""

    world: World
    controller: Controller[Any]
    forecaster: Forecaster[Any] | None

    def play(self, on_tick: Callable[[World], None] | None = None) -> Decisions:
        """Run the world to its end."""
        return run(self.world, self.controller, self.forecaster, on_tick)

    def begin(self) -> Run[Any]:
        """A run from the world's present tick, for callers that advance it tick by tick."""
        return Run(self.world, self.controller, self.forecaster)


def _heuristic(forecast: str) -> Entrant:
    family = family_of(HEURISTIC)
    return Entrant(calibrated(HEURISTIC), forecaster_of(forecast), family.scheduling)


ENTRANTS: dict[str, Entrant] = {
    "hpa": Entrant(hpa_of),
    **{
        name: Entrant(calibrated(name), family.forecaster, family.scheduling)
        for name, family in FAMILIES.items()
        # Entered below, once per forecaster.
        if name != HEURISTIC
    },
    **{f"{HEURISTIC}:{forecast}": _heuristic(forecast) for forecast in (*FORECASTERS, NONE)},
}
"""The entrants of a full comparison."""


def entrant_of(name: str) -> Entrant:
    """The entrant of a name, with its suffixes."""
    plain, at, scheduler = name.partition("@")
    base, tilde, knob = plain.partition("~")
    entrant = _plain(base)
    if tilde:
        entrant = entrant._replace(controller=_turned(base, knob))
    if not at:
        return entrant
    if scheduler not in SCHEDULINGS:
        known = ", ".join(SCHEDULINGS)
        raise InputError(f"controller: {name}: expected one of {known} after @, got {scheduler!r}")
    return entrant._replace(scheduling=SCHEDULINGS[scheduler])


def _plain(name: str) -> Entrant:
    if name in ENTRANTS:
        return ENTRANTS[name]
    at_target = _AT_TARGET.fullmatch(name)
    if at_target is not None:
        return _hpa_at(float(at_target[1]))
    kind, colon, rest = name.partition(":")
    if kind == HEURISTIC and colon:
        forecast, _, part = rest.partition("/")
        return _without(forecast, part)
    if kind == POLICY and colon:
        forecast, _, part = rest.partition("/")
        return Entrant(policy_of(part), forecaster_of(forecast), family_of(HEURISTIC).scheduling)
    # `hpa:1.5` is a bad target, not a module.
    if colon and kind != "hpa":
        return _import(name)
    hint = did_you_mean(name, ENTRANTS)
    known = ", ".join(ENTRANTS)
    raise InputError(
        f"controller: {name}: {hint}expected one of {known}, hpa:0.6 for another target, "
        "or package.module:attribute"
    )


def _turned(name: str, knob: str) -> Callable[[World], Controller[Any]]:
    """`NAME~0.9`: the tuned controller with its targets times 0.9."""
    family = FAMILIES.get(name.partition(":")[0])
    if family is None or not family.cost_knob or "/" in name:
        known = ", ".join(one.name for one in FAMILIES.values() if one.cost_knob)
        raise InputError(f"controller: {name}~{knob}: expected one of {known} before ~")
    try:
        factor = float(knob)
    except ValueError:
        factor = 0.0
    if not 0.1 <= factor <= 10:
        raise InputError(f"controller: {name}~{knob}: expected a factor from 0.1 to 10 after ~")
    return at_knob(family, factor)


def _hpa_at(target: float) -> Entrant:
    if not 0.1 <= target < 1:
        raise InputError(f"controller: hpa:{target:g}: expected a target from 0.1 to below 1")
    return Entrant(partial(hpa_of, parameters=Parameters(target)))


def _without(forecast: str, parts: str) -> Entrant:
    """`heuristic:FORECAST/no-PART`, or several joined by a plus: the heuristic without them."""
    # First, because a name without a part gets here only if its forecaster is unknown.
    forecaster = forecaster_of(forecast)
    entrant, left_out = _heuristic(forecast), tuple(parts.split("+"))
    if not set(left_out) <= set(ABLATIONS):
        raise InputError(
            f"controller: {HEURISTIC}:{forecast}/{parts}: expected one of {', '.join(ABLATIONS)}, "
            "or several joined by +"
        )
    return entrant._replace(controller=partial(ablated_of, left_out), forecaster=forecaster)


def enter(
    name: str,
    cluster: SimCluster,
    scenario: Scenario,
    seeds: Sequence[int],
    population: Population | None = None,
) -> Match:
    """A world for the entrant, on its scheduler, ready to run."""
    entrant = entrant_of(name)
    world = World(with_scheduling(cluster, entrant.scheduling), scenario, seeds, population)
    forecaster = entrant.forecaster(world) if entrant.forecaster is not None else None
    return Match(world, entrant.controller(world), forecaster)


def _import(name: str) -> Entrant:
    module, _, attribute = name.partition(":")
    # Find modules in the working directory, as `python -m` does.
    folder = str(Path.cwd())
    if folder not in sys.path:
        # Last, so that a file of the user cannot shadow an installed module.
        sys.path.append(folder)
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise InputError(f"controller: {name}: cannot be imported: {error}") from error
    if not isinstance(found, Entrant):
        raise InputError(
            f"controller: {name}: expected an Entrant of models.compare.catalogue, "
            f"got {type(found).__name__}"
        )
    return found

"""Families of controllers: a factory, its parameters, and the ranges in which to tune them."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from models.baselines import hpa_vpa, pid, practitioner, predictive_hpa, static, vpa
from models.baselines.hpa import simulated as hpa
from models.baselines.triggers import TARGET_RANGES
from models.compare import ablation
from models.control import parameters
from models.control.controller import Controller
from models.control.tuned import tuned
from models.forecaster.port import Forecaster
from models.forecaster.simulated.catalogue import calendar_of, seasonal_of
from models.inputs.errors import InputError, did_you_mean
from models.sim.config.physics import SCHEDULINGS, Scheduling
from models.sim.world import World


class Family(NamedTuple):
    """What tuning needs; picklable, because it is sent to other processes."""

    name: str
    factory: Callable[[World, Any], Controller[Any]]
    parameters: type[Any]
    """A named tuple of numbers with defaults."""
    ranges: dict[str, tuple[float, float]]
    """Smallest and largest value of each field that is tuned."""
    scheduling: Scheduling = Scheduling()
    """How pods are placed under these controllers."""
    forecaster: Callable[[World], Forecaster[Any]] | None = None
    """Forecaster to tune with; None for controllers that only react."""
    cost_knob: tuple[str, ...] = ()
    """Parameters that it trades nodes for violations by: its targets of utilisation."""

    def defaults(self) -> dict[str, float]:
        """Default values of the tuned fields."""
        every: dict[str, float] = self.parameters._field_defaults
        return {name: every[name] for name in self.ranges}

    def make(self, world: World, values: Mapping[str, float]) -> Controller[Any]:
        """A controller with these values, and defaults for the others."""
        # Values come from files and searches: a misspelt name must not leave a default in force.
        unknown = sorted(set(values) - set(self.parameters._fields))
        if unknown:
            known = ", ".join(self.parameters._fields)
            raise InputError(f"{self.name}: {unknown[0]}: expected one of {known}")
        return self.factory(world, self.parameters(**values))


_MOST_BUSY: Final = 0.98
"""Highest target on a frontier: at 1, an app would have to fail before it is scaled out."""
HEURISTIC: Final = ablation.NAME
FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family("hpa-calibrated", hpa.hpa_of, hpa.Parameters, hpa.RANGES, cost_knob=("target",)),
        Family("static", static.static_of, static.Parameters, static.RANGES),
        Family("pid", pid.pid_of, pid.Parameters, pid.RANGES, cost_knob=("setpoint",)),
        Family("vpa", vpa.vpa_of, vpa.Parameters, vpa.RANGES),
        Family(
            "hpa+vpa",
            hpa_vpa.hpa_vpa_of,
            hpa_vpa.Parameters,
            hpa_vpa.RANGES,
            cost_knob=("target",),
        ),
        Family(
            "practitioner",
            practitioner.practitioner_of,
            practitioner.Parameters,
            practitioner.RANGES,
            SCHEDULINGS["priority"],
            cost_knob=tuple(TARGET_RANGES),
        ),
        Family(
            "predictive-hpa",
            predictive_hpa.predictive_hpa_of,
            predictive_hpa.Parameters,
            predictive_hpa.RANGES,
            SCHEDULINGS["priority"],
            # What Crane and PredictKube know: earlier days, and no announcements.
            seasonal_of,
            tuple(TARGET_RANGES),
        ),
        Family(
            HEURISTIC,
            ablation.heuristic_of,
            parameters.Parameters,
            parameters.RANGES,
            SCHEDULINGS["priority"],
            # The default forecaster; see decision 0006.
            calendar_of,
            (*TARGET_RANGES, "surge_target"),
        ),
    )
}


def family_of(name: str) -> Family:
    """The family of that name."""
    if name in FAMILIES:
        return FAMILIES[name]
    hint = did_you_mean(name, FAMILIES)
    raise InputError(f"controllers: {name}: {hint}expected one of {', '.join(FAMILIES)}")


def calibrated(name: str) -> Callable[[World], Controller[Any]]:
    """A factory with the tuned parameters, which are read when a controller is created."""
    return partial(_calibrated, family_of(name))


def _calibrated(family: Family, world: World) -> Controller[Any]:
    return family.make(world, tuned(family.name))


def at_knob(family: Family, knob: float) -> Callable[[World], Controller[Any]]:
    """A factory with the tuned parameters, all targets multiplied by `knob`."""
    return partial(_at_knob, family, knob)


def _at_knob(family: Family, knob: float, world: World) -> Controller[Any]:
    values = {**family.defaults(), **tuned(family.name)}
    scaled = {name: min(_MOST_BUSY, knob * values[name]) for name in family.cost_knob}
    return family.make(world, {**values, **scaled})

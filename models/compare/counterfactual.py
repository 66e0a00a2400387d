"""What a run would have become, had it been decided otherwise for some minutes.

The run is saved before the decision and played on twice: as it was, and changed. Both see the same
traffic, churn and faults, so the difference is that of the decision.
"""

from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from models.cluster import rows
from models.cluster.arrays import F64, I32
from models.compare.fork import Fork, Played, Totals, totals, weights_of
from models.control.budget import Directive
from models.control.demand import AppSignals
from models.control.report import Report
from models.control.residual import Advisers, AppFactors, Residual, neutral, no_factors
from models.features.pools import PoolReadings
from models.forecaster.port import Forecast
from models.inputs.errors import InputError, did_you_mean
from models.sim.world import World
from models.statistics import Interval, mean

_OF_DOMAINS: Final = ("headroom", "urgency", "comfort", "need")
"""Levers that a change may give to one domain."""
LEVERS: Final = (*_OF_DOMAINS, "spare")
_MOST: Final = 10.0
"""Largest factor; the smallest is its inverse."""


class Change(NamedTuple):
    """One factor that is decided otherwise, on what the heuristic or a policy decides."""

    lever: str
    """A field of the residual."""
    domain: str | None
    """Whose; all domains when None."""
    factor: float


class Otherwise(NamedTuple):
    """What is decided otherwise, and when."""

    at: int
    """Minute after the warm-up."""
    minutes: int
    changes: tuple[Change, ...]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A figure of the run from the decision to the end, per seed."""

    figure: str
    as_it_was: float
    changed: float
    difference: Interval
    """Paired by seed."""


def parse_change(text: str) -> Change:
    """`headroom.payments=1.2`, or `spare=2` for the whole cluster."""
    name, _, value = text.partition("=")
    lever, _, domain = name.strip().partition(".")
    if lever not in LEVERS:
        hint = did_you_mean(lever, LEVERS)
        raise InputError(f"change: {text}: {hint}expected one of {', '.join(LEVERS)} before =")
    if domain and lever not in _OF_DOMAINS:
        raise InputError(f"change: {text}: {lever} is the whole cluster's, leave out .{domain}")
    try:
        factor = float(value)
    except ValueError:
        factor = 0.0
    if not 1 / _MOST <= factor <= _MOST:
        raise InputError(f"change: {text}: expected a factor from {1 / _MOST:g} to {_MOST:g}")
    return Change(lever, domain or None, factor)


def counterfactual(played: Played, otherwise: Otherwise) -> list[Difference]:
    """Both continuations compared: violations by domain, node-hours and J."""
    if not 0 <= otherwise.at < played.scenario.length_minutes:
        raise InputError(
            f"at {otherwise.at}: expected a minute before {played.scenario.length_minutes:g}, "
            f"when {played.scenario.name} ends"
        )
    fork = Fork(played, otherwise.at)
    before = totals(fork.world)
    changed = _Changed(fork, otherwise)
    plain = _to_the_end(fork, fork.given.advisers)
    other = _to_the_end(fork, Advisers(changed.commander, changed.soldier))
    return _differences(fork.world, *(_since(before, one) for one in (plain, other)))


class _Changed:
    """The advisers of the run, with the changes while they last."""

    def __init__(self, fork: Fork, otherwise: Otherwise) -> None:
        self._world, self._given = fork.world, fork.given.advisers
        self._begin = fork.begin
        self._end = fork.tick_of(otherwise.at + otherwise.minutes)
        self._factors = _factors(otherwise.changes, fork.world.cluster.domain_names)

    def commander(
        self, tick: I32, pools: PoolReadings, report: Report, forecast: Forecast | None, /
    ) -> Residual:
        given = self._given.commander
        found = neutral(tick.size)
        if given is not None:
            found = given(tick, pools, report, forecast)
        if not self._begin <= self._world.tick < self._end:
            return found
        scaled: dict[str, Any] = {
            lever: _times(getattr(found, lever), factor)
            for lever, factor in self._factors.items()
            if lever != "need"
        }
        return found._replace(**scaled)

    def soldier(self, status: I32, signals: AppSignals, directive: Directive, /) -> AppFactors:
        given = self._given.soldier
        found = no_factors(status.shape[0])
        if given is not None:
            found = given(status, signals, directive)
        if "need" not in self._factors or not self._begin <= self._world.tick < self._end:
            return found
        of_apps = self._factors["need"][0, status[:, rows.DOMAIN]]
        return found._replace(need=_times(found.need, of_apps).astype(np.float32))


def _factors(changes: tuple[Change, ...], names: tuple[str, ...]) -> dict[str, F64]:
    """[1, D] by lever; [1, 1] of what is the whole cluster's."""
    found: dict[str, F64] = {}
    for lever, domain, factor in changes:
        if domain is not None and domain not in names:
            hint = did_you_mean(domain, names)
            raise InputError(f"change: {domain}: {hint}expected one of {', '.join(names)}")
        width = len(names) if lever in _OF_DOMAINS else 1
        values = found.setdefault(lever, np.ones((1, width)))
        chosen = [domain in (None, name) for name in names] if width > 1 else [True]
        values[:, chosen] *= factor
    return found


def _times(values: NDArray[Any], factor: F64) -> NDArray[Any]:
    """A field without columns is 1 everywhere."""
    environments = values.shape[0]
    plain = values if values.shape[1] else np.ones((environments, factor.shape[1]))
    return plain * factor


def _to_the_end(fork: Fork, advisers: Advisers) -> Totals:
    run = fork.resume(fork.given.advised(advisers), fork.forecaster)
    while not run.finished:
        run.step()
    return totals(fork.world)


def _since(before: Totals, now: Totals) -> Totals:
    return Totals(now.minutes - before.minutes, now.node_hours - before.node_hours)


def _differences(world: World, plain: Totals, other: Totals) -> list[Difference]:
    weights = weights_of(world)
    names = world.cluster.domain_names
    found = [
        _difference(f"minutes of {name}", plain.minutes[:, d], other.minutes[:, d])
        for d, name in enumerate(names)
    ]
    weighted = (plain.minutes @ weights, other.minutes @ weights)
    return [
        *found,
        _difference("weighted minutes", *weighted),
        _difference("node-hours", plain.node_hours, other.node_hours),
        _difference("J", weighted[0] + plain.node_hours, weighted[1] + other.node_hours),
    ]


def _difference(figure: str, plain: F64, other: F64) -> Difference:
    return Difference(
        figure=figure,
        as_it_was=float(plain.mean()),
        changed=float(other.mean()),
        difference=mean(other - plain),
    )

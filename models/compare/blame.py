"""Whose fault a breach was: the run again from a saved state, with one part after the other ideal.

Four parts decide how long apps violate their SLO: the forecast, the Commander, the Soldiers and the
provisioner of nodes. Each is replaced by an ideal one in every combination, sixteen replays in all.
A part's share is its Shapley value: what it adds to the avoided violations, averaged over all
orders in which parts could become ideal. So the shares sum to one, and two parts that could both
have prevented the same minutes divide them equally.

What is ideal: the forecast is the true future. The Commander is the tuned one, and knows which
capacity will be lost. The Soldiers are the tuned ones, and size each app for what it gets while its
pods start. The provisioner delivers nodes within seconds. No part knows what another is for: a
Commander that foresaw demand would take the blame for the forecast. Quotas bind all of them.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Final, Literal, NamedTuple

import msgspec
import numpy as np

from models.cluster.arrays import F64, I32
from models.compare.fork import Fork, Played, totals, weights_of
from models.compare.levers import MOST_NEED, Known, foresee
from models.control.budget import Directive
from models.control.demand import AppSignals
from models.control.hierarchy import Heuristic
from models.control.parameters import Parts
from models.control.report import Report
from models.control.residual import Advisers, AppFactors, Residual, neutral, no_factors
from models.control.tuned import tuned_parameters
from models.features.pools import PoolReadings
from models.forecaster.port import Forecast, ticks_per_minute
from models.forecaster.simulated.catalogue import oracle_of
from models.inputs.errors import InputError
from models.sim.config.physics import SimCluster, with_physics
from models.sim.world import World
from models.statistics import Interval, mean, ratio

Part = Literal["forecast", "commander", "soldiers", "provisioner"]
PARTS: Final[tuple[Part, ...]] = ("forecast", "commander", "soldiers", "provisioner")
Ideal = frozenset[Part]
REPLAYS: Final = 2 ** len(PARTS)
LEAD_MIN: Final = 30
"""Minutes before the breach at which the replays begin: the longest horizon of a forecast."""
_HEADROOM: Final = 1.2
"""Of the ideal Commander while capacity is lost: the best constant of `levers.py`."""


class Breach(NamedTuple):
    """The part of a run that is in question."""

    first: int
    """Minute after the warm-up with which it begins."""
    end: int
    """Minute before which it ends."""
    domains: tuple[str, ...] = ()
    """Whose violations count; all when empty."""


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """What one part is to blame for."""

    part: Part
    share: Interval
    """Of the violations that ideal parts avoid together; below zero, the ideal part did harm."""
    minutes: Interval
    """The same in violation minutes times the weight of the priority, per seed."""
    alone: Interval
    """What it avoids if only this part is ideal, as a share of the same."""


class Blame(msgspec.Struct, frozen=True, kw_only=True):
    """How a breach is shared among the parts; minutes are weighted by priority, per seed."""

    minutes: float
    """As it was."""
    unavoidable: float
    """With every part ideal."""
    shares: list[Share]
    """The largest first."""
    named: Part | None
    """The part with the largest share, unless the second largest may well be it."""


class Replays:
    """The continuations of a run under ideal parts, from its saved state before the breach."""

    def __init__(self, played: Played, breach: Breach) -> None:
        if not 0 <= breach.first < breach.end <= played.scenario.length_minutes:
            raise InputError(
                f"minutes {breach.first} to {breach.end}: expected a part of the "
                f"{played.scenario.length_minutes:g} minutes of {played.scenario.name}"
            )
        self._breach = breach
        self._fork = fork = Fork(played, breach.first - LEAD_MIN)
        self._weight = _weights(fork.world, breach.domains)
        self._prompt = World(
            with_prompt_nodes(fork.cluster), played.scenario, played.seeds, fork.population
        )
        self._known = foresee(fork.world)
        self._oracle = oracle_of(fork.world)

    def cost(self, ideal: Ideal) -> F64:
        """[E] weighted violation minutes of the breach with these parts ideal."""
        fork = self._fork
        world = self._prompt if "provisioner" in ideal else fork.world
        forecaster = self._oracle if "forecast" in ideal else fork.forecaster
        run = fork.resume(self._controller(ideal, world), forecaster, world)
        found = []
        for end in (self._breach.first, self._breach.end):
            while world.tick < fork.tick_of(end):
                run.step()
            found.append(totals(world).minutes @ self._weight)
        cost: F64 = found[1] - found[0]
        return cost

    def _controller(self, ideal: Ideal, world: World) -> Heuristic:
        advisers = _IdealAdvisers(world, self._known)
        best = Heuristic(
            world.inventory, world.layout.pools, tuned_parameters(), Parts(),
            Advisers(advisers.commander, advisers.soldier),
        )  # fmt: skip
        return self._fork.given.borrowing(
            best, commander="commander" in ideal, soldiers="soldiers" in ideal
        )


class _IdealAdvisers:
    """The advisers of ideal parts."""

    def __init__(self, world: World, known: Known) -> None:
        self._world, self._known = world, known
        self._per_minute = ticks_per_minute(world.cluster.tick_seconds)

    def commander(
        self, tick: I32, _pools: PoolReadings, report: Report, _forecast: Forecast | None, /
    ) -> Residual:
        losing = self._known.at(int(tick[0]) // self._per_minute).losing
        factor = np.broadcast_to(np.where(losing, _HEADROOM, 1.0), report.work.shape)
        return neutral(tick.size)._replace(headroom=factor)

    def soldier(self, _status: I32, _signals: AppSignals, _directive: Directive, /) -> AppFactors:
        soon = self._known.at(self._world.tick // self._per_minute).app_soon
        found = no_factors(len(soon))
        return found._replace(need=np.clip(soon, np.float32(1), MOST_NEED))


def blame(played: Played, breach: Breach, replayed: Callable[[], None] = lambda: None) -> Blame:
    """Play every combination of ideal parts, and share what they avoid."""
    replays = Replays(played, breach)
    costs: dict[Ideal, F64] = {}
    for ideal in _subsets(PARTS):
        costs[ideal] = replays.cost(ideal)
        replayed()
    return shared(costs)


def shared(costs: Mapping[Ideal, F64]) -> Blame:
    """The blame of the parts for costs [E] by the set of ideal parts."""
    nothing, everything = costs[frozenset()], costs[frozenset(PARTS)]
    values = shapley(costs)
    avoided = nothing - everything
    shares = [
        Share(
            part=part,
            share=ratio(values[part], avoided),
            minutes=mean(values[part]),
            alone=ratio(nothing - costs[frozenset({part})], avoided),
        )
        for part in PARTS
    ]
    shares.sort(key=lambda one: -one.minutes.value)
    return Blame(
        minutes=float(nothing.mean()),
        unavoidable=float(everything.mean()),
        shares=shares,
        named=_named(values, [one.part for one in shares]),
    )


def shapley(costs: Mapping[Ideal, F64]) -> dict[Part, F64]:
    """[E] of each part: the mean, over all orders, of what it avoids when its turn comes."""
    found = {}
    for part in PARTS:
        others = [one for one in PARTS if one != part]
        terms = [
            (costs[before] - costs[before | {part}])
            * (math.factorial(len(before)) * math.factorial(len(others) - len(before)))
            for before in _subsets(others)
        ]
        found[part] = np.sum(terms, axis=0) / math.factorial(len(PARTS))
    return found


def _named(values: Mapping[Part, F64], order: Sequence[Part]) -> Part | None:
    first, second = order[0], order[1]
    if values[first].mean() <= 0.0:
        return None
    ahead = mean(values[first] - values[second])
    # One seed has no interval: it names a part, but only for itself.
    return None if ahead.low <= 0.0 else first


def _subsets(parts: Iterable[Part]) -> list[Ideal]:
    every = list(parts)
    return [frozenset(one) for size in range(len(every) + 1) for one in combinations(every, size)]


def with_prompt_nodes(cluster: SimCluster) -> SimCluster:
    """The same cluster with a cloud that delivers any number of nodes within a tick."""
    fast = msgspec.structs.replace(
        cluster.physics.provisioner,
        batch_window_s=0.0, requests_per_second=1e4, launches_per_second=1e4,
        boot_s=1.0, boot_contention=0.0,
    )  # fmt: skip
    return with_physics(cluster, provisioner=fast)


def _weights(world: World, domains: Sequence[str]) -> F64:
    """[D] weights of the objective, 0 for domains that are not in question."""
    names = world.cluster.domain_names
    unknown = [name for name in domains if name not in names]
    if unknown:
        raise InputError(f"domain: {unknown[0]}: expected one of {', '.join(names)}")
    return np.where([not domains or name in domains for name in names], weights_of(world), 0.0)

"""Oracles of single levers: what each part of a policy's residual could be worth at most.

A policy can move a handful of the heuristic's numbers. Here an oracle moves one of them and leaves
the others alone: it knows the world's future demand and which capacity will be lost. What such an
oracle does not gain, no training finds either. Entered by name, for example
`hirl bench control --controllers heuristic:calendar,models.compare.levers:headroom`.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F32, F64, Mask
from models.cluster.observation import Observation
from models.cluster.plan import Plan
from models.compare.catalogue import Entrant
from models.compare.families import HEURISTIC, family_of
from models.control.hierarchy import Heuristic, HeuristicState
from models.control.parameters import Parts
from models.control.residual import Residual, neutral
from models.control.tuned import tuned_parameters
from models.forecaster.port import HORIZONS_MIN, Forecast, ticks_per_minute
from models.forecaster.simulated.catalogue import forecaster_of
from models.forecaster.simulated.future import future_of
from models.forecaster.simulated.oracle import by_domain
from models.sim.config.events import SpotReclaim, ZoneLoss
from models.sim.world import World

_RISE: Final = 1.1
"""Demand over now from which the oracle prepares."""
_AHEAD_MIN: Final = 30
"""Minutes that the oracle looks ahead at a domain's demand."""
_KEPT_MIN: Final = 20
"""Minutes that it stays prepared after the last rise it saw."""
_APP_AHEAD_MIN: Final = 4
"""Minutes that it looks ahead at an app's demand: pods start within."""
MOST_NEED: Final = np.float32(1.5)
"""Largest factor on an app's need."""
_MOST_CPU: Final = np.float32(1.5)
"""Largest factor on an app's CPU request."""
_LOSS_AHEAD_MIN: Final = 10
"""Minutes before a loss of capacity from which the oracle prepares for it."""
_SOON, _LATER = HORIZONS_MIN.index(5), HORIZONS_MIN.index(15)


class Foresight(NamedTuple):
    """What an oracle knows now. E environments, D domains, A apps."""

    rising: Mask
    """[E, D] demand rises soon, or has just risen."""
    losing: Mask
    """[E, 1] capacity is lost soon, or is away."""
    app: F32
    """[E, A] highest demand of the next minutes over that of now."""
    app_soon: F32
    """[E, A] the same of this minute and the next one alone."""


class Known(NamedTuple):
    """The same for the whole scenario, by the minute."""

    rising: Mask
    """[E, M, D]."""
    losing: Mask
    """[E, M]."""
    app: F32
    """[E, M, A]."""
    app_soon: F32
    """[E, M, A]."""

    def at(self, minute: int) -> Foresight:
        """What is known in a minute."""
        now = min(minute, self.rising.shape[1] - 1)
        return Foresight(
            self.rising[:, now], self.losing[:, now, None], self.app[:, now], self.app_soon[:, now]
        )

    def between(self, first: int, end: int) -> "Known":
        """Of the minutes from `first` to before `end`."""
        part = slice(first, end)
        return Known(
            self.rising[:, part], self.losing[:, part], self.app[:, part], self.app_soon[:, part]
        )


Lever = Callable[[Foresight, World], Residual]


def _choose(prepared: Mask, low: float, high: float) -> F64:
    return np.where(prepared, high, low)


def _headroom(low: float, high: float, known: Foresight, _world: World) -> Residual:
    prepared = known.rising | known.losing
    return neutral(len(prepared))._replace(headroom=_choose(prepared, low, high))


def _headroom_of_demand(known: Foresight, _world: World) -> Residual:
    return neutral(len(known.rising))._replace(headroom=_choose(known.rising, 0.9, 1.1))


def _headroom_of_others(known: Foresight, world: World) -> Residual:
    found = _headroom(0.9, 1.1, known, world)
    highest = world.inventory.priority == world.inventory.priority.min()
    return found._replace(headroom=np.where(highest, 1.0, found.headroom))


def _urgency(known: Foresight, _world: World) -> Residual:
    return neutral(len(known.rising))._replace(urgency=_choose(known.rising, 1.0, 2.0))


def _comfort(known: Foresight, _world: World) -> Residual:
    return neutral(len(known.rising))._replace(comfort=_choose(known.rising, 0.9, 1.3))


def _spare(known: Foresight, _world: World) -> Residual:
    prepared = known.rising.any(axis=1, keepdims=True) | known.losing
    return neutral(len(prepared))._replace(spare=_choose(prepared, 0.3, 1.5))


def _belief(
    known: Foresight, _world: World, fields: tuple[str, ...] = ("pods", "nodes")
) -> Residual:
    """Believe the quarter of an hour fully where demand rises; nothing where it doesn't."""
    weights = np.zeros((*known.rising.shape, len(HORIZONS_MIN)))
    weights[..., _LATER] = known.rising
    weights[..., _SOON] = np.where(known.rising, 0.0, -1.0)
    return neutral(len(known.rising))._replace(**dict.fromkeys(fields, weights))


def _need(known: Foresight, _world: World) -> Residual:
    return neutral(len(known.rising))._replace(need=np.clip(known.app, 1.0, MOST_NEED))


def _need_soon(known: Foresight, _world: World) -> Residual:
    return neutral(len(known.rising))._replace(need=np.clip(known.app_soon, 1.0, MOST_NEED))


def _need_always(known: Foresight, _world: World) -> Residual:
    return neutral(len(known.rising))._replace(need=np.full_like(known.app, 1.1))


def _cpu_soon(known: Foresight, _world: World) -> Residual:
    larger = np.where(known.app_soon > _RISE, np.minimum(known.app_soon, _MOST_CPU), 1.0)
    return neutral(len(known.rising))._replace(cpu=larger.astype(np.float32))


class LeverOracle(Heuristic):
    """The tuned heuristic with one lever moved by an oracle."""

    def __init__(self, world: World, lever: Lever) -> None:
        super().__init__(world.inventory, world.layout.pools, tuned_parameters(), Parts())
        self._world, self._lever, self._known = world, lever, foresee(world)
        self._minute_ticks = ticks_per_minute(world.inventory.tick_s)

    def step(
        self,
        observation: Observation,
        forecast: Forecast | None,
        state: HeuristicState,
        residual: Residual | None = None,  # noqa: ARG002  the oracle's replaces it
    ) -> tuple[Plan, HeuristicState]:
        """The heuristic's plan with the lever as the oracle sets it in this minute."""
        known = self._known.at(int(observation.tick[0]) // self._minute_ticks)
        return super().step(observation, forecast, state, self._lever(known, self._world))


def foresee(world: World) -> Known:
    """What an oracle knows in each minute of the scenario."""
    per_minute = ticks_per_minute(world.cluster.tick_seconds)
    future = future_of(world, per_minute)
    domain = by_domain(future, world.layout.domains)
    rising = _latched(_most_ahead(domain, _AHEAD_MIN) > _RISE * domain, _KEPT_MIN)
    now = np.maximum(future.rps, np.float32(1e-6))
    return Known(
        rising,
        _losses(world, domain.shape[1], per_minute),
        (_most_ahead(future.rps, _APP_AHEAD_MIN) / now).astype(np.float32),
        (_most_ahead(future.rps, 1) / now).astype(np.float32),
    )


def _most_ahead(rps: F32, minutes: int) -> F32:
    """[E, M, N] the highest of this minute and the next ones."""
    most = rps.copy()
    for ahead in range(1, minutes + 1):
        np.maximum(most[:, :-ahead], rps[:, ahead:], out=most[:, :-ahead])
    return most


def _latched(now: Mask, minutes: int) -> Mask:
    """True in this minute or in one of those before."""
    found = now.copy()
    for ago in range(1, minutes + 1):
        found[:, ago:] |= now[:, :-ago]
    return found


def _losses(world: World, minutes: int, per_minute: int) -> Mask:
    losing = np.zeros((world.environments, minutes), np.bool_)
    warmup = world.timeline.warmup_ticks // per_minute
    for event in world.scenario.events:
        if isinstance(event, ZoneLoss | SpotReclaim):
            first = warmup + int(event.at_minute - event.jitter_minutes) - _LOSS_AHEAD_MIN
            # To the end: capacity comes back slowly, and pods with it.
            losing[:, max(0, first) :] = True
    return losing


def _entrant(lever: Lever, forecast: str = "calendar") -> Entrant:
    scheduling = family_of(HEURISTIC).scheduling
    return Entrant(partial(_oracle_of, lever), forecaster_of(forecast), scheduling)


def _oracle_of(lever: Lever, world: World) -> LeverOracle:
    return LeverOracle(world, lever)


headroom = _entrant(partial(_headroom, 0.9, 1.1))
headroom_thrift = _entrant(partial(_headroom, 0.8, 1.0))
headroom_more = _entrant(partial(_headroom, 1.0, 1.2))
headroom_of_demand = _entrant(_headroom_of_demand)
headroom_of_others = _entrant(_headroom_of_others)
urgency = _entrant(_urgency)
comfort = _entrant(_comfort)
spare = _entrant(_spare)
belief_pods = _entrant(partial(_belief, fields=("pods",)))
belief_nodes = _entrant(partial(_belief, fields=("nodes",)))
belief_oracle = _entrant(_belief, "oracle")
need = _entrant(_need)
need_soon = _entrant(_need_soon)
need_always = _entrant(_need_always)
cpu_soon = _entrant(_cpu_soon)

"""Adapters of the heuristic: one for the Commander's decisions, one for a Soldier's.

A policy is a residual on the tuned heuristic: actions of zero leave every decision as it is.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F32, F64, I8, I32
from models.cluster.observation import Observation, Pipeline
from models.cluster.plan import Plan
from models.compare.ablation import heuristic_of
from models.control.hierarchy import HeuristicState
from models.control.residual import Residual, neutral
from models.control.tuned import tuned_parameters
from models.environments.policy import Limits, factors, is_due
from models.features.encode import Encoder
from models.features.memory import FeatureState
from models.features.normalise import Features, normalise
from models.features.table import CLUSTER, GROUP, POOL, Feature, domain_columns
from models.forecaster.port import Forecast, ticks_per_minute
from models.inputs.errors import InputError, did_you_mean
from models.sim.world import World


class HeuristicAdapterState(NamedTuple):
    """The state of the heuristic and the memory of the policy's features."""

    heuristic: HeuristicState
    features: FeatureState


class HeuristicAdapter(ABC):
    """The tuned heuristic; a policy scales its intermediate results by factors."""

    name: str
    pipeline = Pipeline.OURS
    limits: Limits
    actions: int
    every: int

    def __init__(self, world: World) -> None:
        self.inventory = world.inventory
        self._heuristic = heuristic_of(world, tuned_parameters())
        self._encoder = Encoder(self.inventory)
        self._observed = np.zeros((0, 0), np.float32)

    def start(self, observation: Observation) -> HeuristicAdapterState:
        """The state before the first observation."""
        return HeuristicAdapterState(
            self._heuristic.start(observation), self._encoder.start(observation)
        )

    def observe(
        self, observation: Observation, state: HeuristicAdapterState
    ) -> tuple[F32, HeuristicAdapterState]:
        """Normalised features of what this policy decides about."""
        if is_due(int(observation.tick[0]), self.every):
            features, memory = self._encoder.encode(observation, state.features)
            self._observed = self._select(normalise(features))
        else:
            # Between decisions the memory still has to see every tick; sums of domains can wait.
            _, memory = self._encoder.encode_apps(observation, state.features)
        return self._observed, state._replace(features=memory)

    def act(
        self,
        observation: Observation,
        forecast: Forecast | None,
        state: HeuristicAdapterState,
        action: F32 | None,
    ) -> tuple[Plan, HeuristicAdapterState]:
        """The heuristic's plan with the policy's residual."""
        residual = None if action is None else self._residual(action, observation)
        plan, heuristic = self._heuristic.step(observation, forecast, state.heuristic, residual)
        return plan, state._replace(heuristic=heuristic)

    @property
    def guarded(self) -> bool:
        """Breakers cut what a policy plans, in training as in measurements."""
        return self._heuristic.guarded

    def may_hold(self, tick: I32, state: HeuristicAdapterState) -> F64:
        """[E, 2, D] under the budgets in force."""
        return self._heuristic.may_hold(tick, state.heuristic)

    def load(self, state: HeuristicAdapterState) -> F32:
        """[E, A] as the heuristic saw it."""
        return self._heuristic.load(state.heuristic)

    def at_level(self, level: I8, state: HeuristicAdapterState) -> HeuristicAdapterState:
        """From HEURISTIC on the policy's actions change nothing."""
        return state._replace(heuristic=self._heuristic.at_level(level, state.heuristic))

    def overruns(self, state: HeuristicAdapterState) -> I32:
        """[E] increases beyond a budget so far; a policy cannot cause any."""
        return self._heuristic.overruns(state.heuristic)

    @abstractmethod
    def _select(self, features: Features) -> F32:
        """[E, numbers] the normalised features that the policy observes."""

    @abstractmethod
    def _residual(self, action: F32, observation: Observation) -> Residual:
        """The factors that an action [E, actions] stands for."""


def limits_of(columns: Iterable[Feature]) -> Limits:
    """Ranges as the table declares them: normalisation clips to them."""
    declared = tuple(columns)
    return Limits(
        np.array([feature.low for feature in declared], np.float32),
        np.array([feature.high for feature in declared], np.float32),
    )


# The spans, and NEED_SPAN below, were chosen by hand: no policy has been trained with other ones.
HEADROOM_SPAN: Final = 1.5
"""Largest factor on pods and nodes per unit of work; the smallest is its inverse."""
URGENCY_SPAN: Final = 4.0
"""Largest factor on the urgency. Urgency is from 0 to 1, mostly far from both ends."""


class CommanderAdapter(HeuristicAdapter):
    """Each minute, factors on headroom and urgency of every domain.

    Observes domains, pools and the cluster, as the Commander does, and no single app.
    """

    name = "commander-policy"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        domains, pools = self.inventory.priority.size, self.inventory.pool_cpu.size
        self.every = ticks_per_minute(self.inventory.tick_s)
        self.actions = 2 * domains
        self.limits = limits_of(
            (*domain_columns(domains) * domains, *POOL.features * pools, *CLUSTER.features)
        )

    def _select(self, features: Features) -> F32:
        environments = features.cluster.shape[0]
        # No budget, urgency or earlier action: policies that were cloned with them in a prototype
        # copied the past instead of deciding.
        parts = (
            features.domain.reshape(environments, -1),
            features.pool.reshape(environments, -1),
        )
        return np.concatenate((*parts, features.cluster), axis=1)

    def _residual(self, action: F32, observation: Observation) -> Residual:
        # Factors on headroom and urgency: residuals on the budgets did not learn in a prototype.
        headroom, urgency = np.split(action, 2, axis=1)
        return neutral(observation.tick.size)._replace(
            headroom=factors(headroom, HEADROOM_SPAN), urgency=factors(urgency, URGENCY_SPAN)
        )


NEED_SPAN: Final = 1.5
"""Largest factor on the pods that a group's apps need; the smallest is its inverse."""


class SoldierAdapter(HeuristicAdapter):
    """Each tick, factors on the need of the tier groups of one domain.

    Observes these groups and the domain; other domains run the plain heuristic.
    """

    name = "soldier-policy"
    every = 1

    def __init__(self, world: World, domain: str) -> None:
        super().__init__(world)
        tiers = self.inventory.tiers
        self.domain = domain_index(world.cluster.domain_names, domain)
        self.actions = int(tiers[self.domain])
        first = int(tiers[: self.domain].sum())
        self._groups = slice(first, first + self.actions)
        self.limits = limits_of((*GROUP.features * self.actions, *domain_columns(tiers.size)))

    def _select(self, features: Features) -> F32:
        groups = features.group[:, self._groups].reshape(features.group.shape[0], -1)
        return np.concatenate((groups, features.domain[:, self.domain]), axis=1)

    def _residual(self, action: F32, observation: Observation) -> Residual:
        # Apps keep their tier when they move between domains; clip it to the tiers of this domain.
        group = np.minimum(self.inventory.tier, self.actions - 1)
        in_domain = observation.status[:, rows.DOMAIN] == self.domain
        need = np.where(in_domain, factors(action, NEED_SPAN)[:, group], 1.0).astype(np.float32)
        return neutral(observation.tick.size)._replace(need=need)


def domain_index(names: tuple[str, ...], name: str) -> int:
    """Index of a domain on every domain axis."""
    if name in names:
        return names.index(name)
    hint = did_you_mean(name, names)
    raise InputError(f"domain: {name}: {hint}expected one of {', '.join(names)}")

"""What the seats on the heuristic have in common: its state, and features of their own."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F32, I32
from models.cluster.observation import DOMAIN, Observation, Pipeline
from models.cluster.plan import Plan
from models.compare.ablation import NAME, heuristic_of
from models.control.hierarchy import HeuristicState
from models.control.parameters import Parameters
from models.control.residual import Residual, neutral
from models.control.tuned import tuned
from models.environments.policy import Limits, factors, is_due
from models.features.encode import Encoder
from models.features.memory import FeatureState
from models.features.normalise import Features, normalise
from models.features.table import CLUSTER, GROUP, POOL, Feature, domain_columns
from models.forecaster.port import Forecast
from models.inputs.errors import InputError, did_you_mean
from models.sim.apps import declare
from models.sim.world import World


class HeuristicAdapterState(NamedTuple):
    """The heuristic's memory and the policy's own."""

    heuristic: HeuristicState
    features: FeatureState


class HeuristicAdapter(ABC):
    """The tuned heuristic, of which a policy changes what it works out by factors."""

    name: str
    pipeline = Pipeline.OURS
    limits: Limits
    actions: int
    every: int

    def __init__(self, world: World) -> None:
        self.inventory = declare(world.population, world.cluster)
        self._heuristic = heuristic_of(world, Parameters(**tuned(NAME)))
        self._encoder = Encoder(self.inventory)
        self._seen = np.zeros((0, 0), np.float32)

    def start(self, observation: Observation) -> HeuristicAdapterState:
        """Nothing has been seen."""
        return HeuristicAdapterState(
            self._heuristic.start(observation), self._encoder.start(observation)
        )

    def look(
        self, observation: Observation, state: HeuristicAdapterState
    ) -> tuple[F32, HeuristicAdapterState]:
        """Normalised features, of the things that this policy decides about."""
        if is_due(int(observation.tick[0]), self.every):
            features, memory = self._encoder.encode(observation, state.features)
            self._seen = self._select(normalise(features))
        else:
            _, memory = self._encoder.encode_apps(observation, state.features)
        return self._seen, state._replace(features=memory)

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

    def overruns(self, state: HeuristicAdapterState) -> I32:
        """[E] increases beyond a budget so far: a policy cannot cause any."""
        return self._heuristic.overruns(state.heuristic)

    @abstractmethod
    def _select(self, features: Features) -> F32:
        """[E, numbers] what the policy sees of the normalised features."""

    @abstractmethod
    def _residual(self, action: F32, observation: Observation) -> Residual:
        """What the action [E, actions] means."""


def limits_of(columns: Iterable[Feature]) -> Limits:
    """Ranges as the table declares them: that is where normalised features are cut."""
    declared = tuple(columns)
    return Limits(
        np.array([feature.low for feature in declared], np.float32),
        np.array([feature.high for feature in declared], np.float32),
    )


HEADROOM_SPAN: Final = 1.5
"""Pods and nodes per unit of work, at most times this or divided by it."""
URGENCY_SPAN: Final = 4.0
"""Urgency goes from 0 to 1 and most domains are far from either end."""


class CommanderAdapter(HeuristicAdapter):
    """Sees domains, pools and the cluster, as the Commander does; no single app."""

    name = "commander-policy"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        domains, pools = self.inventory.priority.size, self.inventory.pool_cpu.size
        self.every = max(1, 60 // self.inventory.tick_s)
        self.actions = 2 * domains
        self.limits = limits_of(
            (*domain_columns(domains) * domains, *POOL.features * pools, *CLUSTER.features)
        )

    def _select(self, features: Features) -> F32:
        rows = features.cluster.shape[0]
        parts = (features.domain.reshape(rows, -1), features.pool.reshape(rows, -1))
        return np.concatenate((*parts, features.cluster), axis=1)

    def _residual(self, action: F32, observation: Observation) -> Residual:
        headroom, urgency = np.split(action, 2, axis=1)
        return neutral(observation.tick.size)._replace(
            headroom=factors(headroom, HEADROOM_SPAN), urgency=factors(urgency, URGENCY_SPAN)
        )


NEED_SPAN: Final = 1.5
"""Pods that the apps of a group need, at most times this or divided by it."""


class SoldierAdapter(HeuristicAdapter):
    """Sees the tier groups of its domain and the domain; the others run the plain heuristic."""

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
        # An app that moved in keeps its tier; where there are fewer here, it joins the last.
        group = np.minimum(self.inventory.tier, self.actions - 1)
        here = observation.status[:, DOMAIN] == self.domain
        need = np.where(here, factors(action, NEED_SPAN)[:, group], 1.0).astype(np.float32)
        return neutral(observation.tick.size)._replace(need=need)


def domain_index(names: tuple[str, ...], name: str) -> int:
    """Place of a domain on every domain axis."""
    if name in names:
        return names.index(name)
    hint = did_you_mean(name, names)
    raise InputError(f"domain: {name}: {hint}expected one of {', '.join(names)}")

"""A Soldier's seat: each tick, how much the tier groups of one domain are taken to need."""

from typing import Final

import numpy as np

from models.cluster.arrays import F32
from models.cluster.observation import DOMAIN, Observation
from models.control.residual import Residual, neutral
from models.environments.heuristic_seat import HeuristicSeat, limits_of
from models.environments.seat import factors
from models.features.normalise import Features
from models.features.table import GROUP, domain_columns
from models.inputs.errors import InputError, did_you_mean
from models.sim.world import World

NEED_SPAN: Final = 1.5
"""Pods that the apps of a group need, at most times this or divided by it."""


class SoldierSeat(HeuristicSeat):
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

"""The shape of every controller: observation and forecast in, plan out, state handed through."""

from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from models.sim.apps import F32, I16, I32, Population
from models.sim.observe import Observation, Pipeline
from models.sim.plan import Plan

S = TypeVar("S")


class Inventory(NamedTuple):
    """What is declared about the apps: bounds and targets, nothing measured or hidden."""

    domain: I16
    tier: I16
    min_replicas: I32
    max_replicas: I32
    latency_target: F32
    """Seconds; infinite for best-effort apps."""
    saturation: F32
    """CPU use over request at which the app's load tests found its pods saturated."""


def declare(population: Population) -> Inventory:
    """The inventory of a population, as its owners would write it."""
    apps = population.apps
    busy = apps.cpu_seconds / (apps.cpu_seconds + apps.io_seconds)
    return Inventory(
        domain=apps.domain,
        tier=apps.tier,
        min_replicas=apps.min_replicas,
        max_replicas=apps.max_replicas,
        latency_target=apps.latency_target,
        saturation=(apps.workers_per_core * apps.cpu_limit_ratio * busy).astype(np.float32),
    )


class Controller(Protocol[S]):
    """A controller sees observations only, never the world's truth."""

    name: str
    pipeline: Pipeline

    def start(self, observation: Observation) -> S:
        """The state before the first step."""
        ...

    def step(self, observation: Observation, forecast: None, state: S) -> tuple[Plan, S]:
        """Decide one tick for every environment; the plan is valid until the next step."""
        ...

"""The traffic of the 14 days before a scenario, per minute: what a forecaster has seen.

It comes from the same function of (seed, app, minute) as the traffic of the scenario itself,
without the scenario's events: nothing of what is going to happen is in it.
"""

import numpy as np

from models.cluster.arrays import F32, I32
from models.cluster.calendar import HISTORY_MINUTES
from models.cluster.observation import DOMAIN
from models.jit import kernel
from models.sim.service import call_forward
from models.sim.tick import Given
from models.sim.traffic import base_rates
from models.sim.world import World


def domain_history(world: World, minutes: int = HISTORY_MINUTES) -> F32:
    """[E, D, minutes] requests per second per domain, calls included, up to tick 0."""
    history = np.zeros((world.environments, world.layout.domains, minutes), np.float32)
    for e in range(world.environments):
        by_app = app_history(world, e, minutes)
        domain = world.state.status[e, DOMAIN]
        for d in range(world.layout.domains):
            history[e, d] = by_app[:, domain == d].sum(axis=1)
    return history


def app_history(world: World, environment: int, minutes: int = HISTORY_MINUTES) -> F32:
    """[minutes, A] requests per second of every app of one environment, up to tick 0."""
    if not 1 <= minutes <= HISTORY_MINUTES:
        raise ValueError(f"expected 1 to {HISTORY_MINUTES} minutes, got {minutes}")
    rates = np.zeros((minutes, world.given.apps.size), np.float32)
    domain = world.population.apps.domain.astype(np.int32)
    seed = int(world.state.env["seed"][environment])
    everything = np.ones_like(rates[0])
    _fill(world.given, domain, seed, everything, rates)
    return rates


@kernel
def _fill(given: Given, domain: I32, seed: int, passed: F32, rates: F32) -> None:
    """Everything gets through: in the past nothing was overloaded."""
    calls = given.calls
    for row in range(rates.shape[0]):
        minute = row - rates.shape[0]
        base_rates(given.apps, domain, given.shape, given.script, seed, minute, rates[row])
        call_forward(calls.caller, calls.callee, calls.per_request, passed, rates[row])

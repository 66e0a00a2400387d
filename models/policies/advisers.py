"""Policies as the heuristic calls them: inputs, network, guards."""

from collections.abc import Callable
from typing import Final, Protocol

import numpy as np

from models.cluster.arrays import F32, I32
from models.cluster.inventory import Inventory
from models.control.budget import Directive
from models.control.demand import AppSignals
from models.control.report import Report
from models.control.residual import Residual
from models.features.pools import PoolReadings
from models.forecaster.port import Forecast
from models.policies.inputs import CommanderInputs, commander_inputs, soldier_inputs
from models.policies.outputs import Answer, need_of, residual_of

_BLOCK: Final = 64
"""Apps per call, padded. Products of matrices of another size are rounded differently, and an app's
factor must not depend on which other apps its process holds."""


class CommanderNetwork(Protocol):
    """Answers for every environment at once, by the names of the contract's outputs."""

    def __call__(self, inputs: CommanderInputs, /) -> Answer:
        """The outputs, each with the environment first."""
        ...


class SoldierNetwork(Protocol):
    """Answers for every app at once."""

    def __call__(self, inputs: F32, /) -> F32:
        """[E, A] factors, of [E, A, APP_COLUMNS]."""
        ...


class CommanderPolicy:
    """Turns what the Commander decides on into a residual; keeps no state."""

    def __init__(self, inventory: Inventory, network: CommanderNetwork) -> None:
        self._inventory, self._network = inventory, network

    def __call__(
        self, tick: I32, pools: PoolReadings, report: Report, forecast: Forecast | None, /
    ) -> Residual:
        """The residual of the minute that begins."""
        inputs = commander_inputs(tick, pools, report, forecast, self._inventory)
        return residual_of(self._network(inputs), self._inventory.priority)


class SoldierPolicy:
    """Turns what a Soldier knows of its apps into factors on their need; keeps no state."""

    def __init__(self, inventory: Inventory, network: SoldierNetwork) -> None:
        self._inventory, self._network = inventory, network

    def __call__(self, status: I32, signals: AppSignals, directive: Directive, /) -> F32:
        """[E, A] for this tick."""
        inputs = soldier_inputs(status, signals, directive, self._inventory)
        answer = self._network(inputs)
        return need_of(answer, status, signals.features, self._inventory.priority)


def in_blocks(answer: Callable[[F32], F32], inputs: F32) -> F32:
    """[E, A] factors, of [E, A, APP_COLUMNS]; `answer` gets blocks of as many apps each."""
    environments, apps, width = inputs.shape
    rows = inputs.reshape(-1, width)
    missing = -len(rows) % _BLOCK
    padded = np.concatenate((rows, np.zeros((missing, width), np.float32)))
    factors = [np.zeros((0, 1), np.float32)]
    factors += [answer(padded[at : at + _BLOCK]) for at in range(0, len(padded), _BLOCK)]
    found: F32 = np.concatenate(factors)[: len(rows), 0].reshape(environments, apps)
    return found

"""Policies as the heuristic calls them: inputs, network, guards."""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

import numpy as np

from models.cluster.arrays import F32, I32
from models.cluster.inventory import Inventory
from models.control.budget import Directive
from models.control.demand import AppSignals
from models.control.report import Report
from models.control.residual import AppFactors, Residual
from models.features.pools import PoolReadings
from models.forecaster.port import Forecast
from models.policies.inputs import CommanderInputs, commander_inputs
from models.policies.outputs import Answer, factors_of, residual_of
from models.policies.soldier_inputs import SoldierInputs, soldier_inputs

_BLOCK: Final = 8
"""Domains per call, padded. Products of matrices of another size are rounded differently, and a
domain's factors must not depend on which other domains its process holds."""


class CommanderNetwork(Protocol):
    """Answers for every environment at once, by the names of the contract's outputs."""

    def __call__(self, inputs: CommanderInputs, /) -> Answer:
        """The outputs, each with the environment first."""
        ...


class SoldierNetwork(Protocol):
    """Answers for every domain at once, by the names of the contract's outputs."""

    def __call__(self, inputs: SoldierInputs, /) -> Answer:
        """[E, D, MEMBERS] each."""
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
    """Turns what the Soldiers know of their apps into factors on each; keeps no state."""

    def __init__(self, inventory: Inventory, network: SoldierNetwork) -> None:
        self._inventory, self._network = inventory, network

    def __call__(self, status: I32, signals: AppSignals, directive: Directive, /) -> AppFactors:
        """For this tick."""
        inputs, apps = soldier_inputs(status, signals, directive, self._inventory)
        return factors_of(self._network(inputs), apps, status, self._inventory.priority)


def in_blocks(answer: Callable[[Mapping[str, F32]], Answer], inputs: SoldierInputs) -> Answer:
    """The outputs for every domain; `answer` gets blocks of as many domains each."""
    environments, domains = inputs.domain.shape[:2]
    count = environments * domains
    padded = {
        name: _padded(values.reshape(count, *values.shape[2:]))
        for name, values in inputs._asdict().items()
    }
    blocks = [
        answer({name: values[at : at + _BLOCK] for name, values in padded.items()})
        for at in range(0, count, _BLOCK)
    ]
    return {
        name: np.concatenate([one[name] for one in blocks])[:count].reshape(
            environments, domains, -1
        )
        for name in blocks[0]
    }


def _padded(values: F32) -> F32:
    missing = -len(values) % _BLOCK
    return np.concatenate((values, np.zeros((missing, *values.shape[1:]), np.float32)))

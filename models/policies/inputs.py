"""What the Commander's network sees: the arguments of the heuristic's own decision, normalised.

They are the Soldiers' reports, the pools, the forecast and what is declared. No memory, so that a
process that restarts decides the same; and no budget and no earlier action, because policies that
were cloned with them copied the past.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F32, F64, I32
from models.cluster.inventory import Inventory
from models.control.report import Report
from models.features.pools import PoolReadings
from models.forecaster.port import Forecast

LEAST: Final = 1e-6
MOST: Final = 5.0
"""Bound of every input."""
PRIORITIES: Final = 4
MANY_APPS, _MANY_RPS, _MANY_NODES = 100.0, 1e6, 100.0
_DEAR: Final = 5.0
"""Money per hour and node."""
_MOST_GROWTH: Final = 4.0


class CommanderInputs(NamedTuple):
    """Float32 and finite. E environments, D domains, P pools; columns as in `contract.py`."""

    domain: F32
    """[E, D, DOMAIN_COLUMNS]."""
    pool: F32
    """[E, P, POOL_COLUMNS]."""
    cluster: F32
    """[E, CLUSTER_COLUMNS]."""
    calls: F32
    """[D, D]."""
    uses: F32
    """[D, P]."""


def commander_inputs(
    tick: I32,
    pools: PoolReadings,
    report: Report,
    forecast: Forecast | None,
    inventory: Inventory,
) -> CommanderInputs:
    """The inputs of one decision of every environment."""
    total = np.maximum(pools.cpu.sum(axis=1, keepdims=True), LEAST)
    shape = report.work.shape
    declared = np.eye(PRIORITIES)[np.minimum(inventory.priority, PRIORITIES - 1)]
    columns = [
        *(np.broadcast_to(column, shape) for column in declared.T),
        np.broadcast_to(inventory.floor_share, shape),
        np.sqrt(report.apps / MANY_APPS),
        np.sqrt(report.rps / _MANY_RPS),
        report.held / total,
        *_per_held(report),
        report.at_risk / np.maximum(report.apps, 1.0),
        *_ahead(tick, report.rps, forecast),
    ]
    return CommanderInputs(
        domain=finite(np.stack(columns, axis=2)),
        pool=finite(np.stack(_of_pools(pools), axis=2)),
        cluster=finite(np.stack(_of_cluster(pools, report, total[:, 0], inventory), axis=1)),
        calls=finite(inventory.calls),
        uses=_uses(inventory, pools.ready.shape[1]),
    )


def _per_held(report: Report) -> list[F64]:
    """Sums of cores over the cores that the domain holds; memory in GiB per core."""
    held = np.maximum(report.held, LEAST)
    cores = (
        report.work, report.essential, report.kept, report.wanted, report.pending, report.distress,
    )  # fmt: skip
    memory = report.held_memory_gib / held / 10.0
    return [*(one / held for one in cores), memory]


def _ahead(tick: I32, rps: F64, forecast: Forecast | None) -> list[F64]:
    """Whether a forecast is usable, and the log of each quantile over now; 0 where it is not."""
    if forecast is None:
        return [np.zeros_like(rps)] * (1 + 9)
    usable = (tick <= forecast.valid_until_tick)[:, None]
    usable = usable & np.isfinite(forecast.domain).all(axis=(2, 3)) & (rps > LEAST)
    ratio = (
        np.where(usable[..., None, None], forecast.domain, 1.0)
        / np.where(usable, rps, 1.0)[..., None, None]
    )
    logs = np.log(np.clip(ratio, 1.0 / _MOST_GROWTH, _MOST_GROWTH))
    flat = logs.reshape(*rps.shape, -1)
    return [usable.astype(np.float64), *np.moveaxis(flat, 2, 0)]


def _of_pools(pools: PoolReadings) -> list[F64]:
    ready = np.maximum(pools.ready, 1.0)
    return [
        np.sqrt(pools.ready / _MANY_NODES),
        pools.coming / ready,
        pools.free_cpu / np.maximum(pools.cpu, LEAST),
        pools.free_memory / np.maximum(pools.memory, LEAST),
        (pools.quota - pools.ready - pools.coming) / np.maximum(pools.quota, 1.0),
        np.broadcast_to(pools.price / _DEAR, pools.ready.shape),
    ]


def _of_cluster(pools: PoolReadings, report: Report, total: F64, inventory: Inventory) -> list[F64]:
    return [
        pools.free_cpu.sum(axis=1) / total,
        pools.coming_cpu.sum(axis=1) / total,
        report.pending.sum(axis=1) / total,
        report.distress.sum(axis=1) / total,
        pools.price_per_hour / inventory.spend_cap_per_hour,
    ]


def _uses(inventory: Inventory, pools: int) -> F32:
    choices = inventory.domain_pools
    uses = np.zeros((choices.shape[0], pools), np.float32)
    domain, at = np.nonzero(choices >= 0)
    uses[domain, choices[domain, at]] = 1.0
    return uses


def finite(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]] | F32) -> F32:
    """Bounded float32; what is not a number reads as nothing."""
    known = np.nan_to_num(values, nan=0.0, posinf=MOST, neginf=-MOST)
    bounded: F32 = np.clip(known, -MOST, MOST).astype(np.float32)
    return bounded

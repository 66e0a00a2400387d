"""Events to arrays of the models and back. All arrays have one environment."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from models.cluster import rows
from models.cluster.arrays import F32, F64, I8, I32, Records
from models.cluster.observation import POOL_STATUS, Observation
from models.cluster.plan import Reason
from models.control.budget import Directive, no_directive
from models.features.table import APP
from models.forecaster.port import HORIZONS_MIN, QUANTILES
from schemas.budget_granted import BudgetGranted
from schemas.demand_forecast import DemandForecast
from schemas.domain_observed import DomainObserved, Pods
from schemas.metrics_sampled import MEASURED
from services._kit.errors import Refused
from services._kit.inventory import DeclaredApps
from services._kit.plausible import FUTURE, OUT_OF_RANGE

_MOST: Final = 1e9
"""Pods of an app, and cores, GiB or factors of a budget: more than any cluster has. Larger numbers
count as this one, because their products would be infinite, and nobody could read a plan of them.
"""
REASONS: Final = {int(reason): reason.name.lower().replace("_", "-") for reason in Reason}
"""Spelling of a plan's reasons in events."""


# States.


def in_own_column(values: F64, domain: str, domains: Sequence[str]) -> F64:
    """[..., D] what a service of one domain saved, in its column of the present domains.

    Domains may have been added or removed since. The other columns are zeros in such a service.
    """
    if values.ndim == 0:
        return values  # another form, which the caller refuses
    moved = np.zeros((*values.shape[:-1], len(domains)), values.dtype)
    if domain in domains:
        moved[..., domains.index(domain)] = values.sum(axis=-1)
    return moved


# Frames.


def status_rows(pods: Pods, domain: int) -> I32:
    """[1, STATUS, A] pods of the apps of a domain; all of them are declared."""
    table = np.empty((1, rows.STATUS, len(pods.replicas)), np.int32)
    table[0, rows.ACTIVE], table[0, rows.DOMAIN] = 1, domain
    for row, name in rows.STATUS_COLUMNS:
        table[0, row] = getattr(pods, name)
    return table


def pods_of(status: I32) -> Pods:
    """The reverse of `status_rows`."""
    columns = {name: status[0, row].tolist() for row, name in rows.STATUS_COLUMNS}
    return Pods(**columns)


def measured_rows(columns: Mapping[str, Sequence[float | None]], apps: int) -> F32:
    """[1, SAMPLES, A] samples; NaN where none arrived."""
    table = np.full((1, rows.SAMPLES, apps), np.nan, np.float32)
    for row, name in enumerate(MEASURED):
        if columns.get(name):
            # numpy reads a null (None) as NaN, the mark of a gap.
            table[0, row] = np.array(columns[name], np.float32)
    return table


def measured_columns(table: F32, missing: I8) -> dict[str, list[float | None]]:
    """The reverse of `measured_rows`; a missing app has no samples at all."""
    absent = missing[0] == 1
    columns: dict[str, list[float | None]] = {}
    for row, name in enumerate(MEASURED):
        values = table[0, row]
        # JSON has no NaN: a gap is null on the wire.
        gaps = absent | ~np.isfinite(values)
        column: list[float | None] = values.tolist()
        for index in np.flatnonzero(gaps).tolist():
            column[index] = None
        columns[name] = column
    return columns


def without_samples(table: F32) -> I8:
    """[1, A] 1 where one of the samples did not arrive."""
    missing: I8 = np.asarray(np.isnan(table).any(axis=1), np.int8)
    return missing


def observation_of(tick: int, status: I32, table: F32, missing: I8, pool: Records) -> Observation:
    """Model input of one tick; samples of missing apps are zeros."""
    samples = np.where(missing[:, None] == 1, np.float32(0), np.nan_to_num(table))
    return Observation(np.array([tick], np.int32), samples, missing, status, pool)


def blank_observation(apps: int) -> Observation:
    """Tick 0 with every app missing and without pools, for start states."""
    status = np.zeros((1, rows.STATUS, apps), np.int32)
    table = np.zeros((1, rows.SAMPLES, apps), np.float32)
    missing = np.ones((1, apps), np.int8)
    return observation_of(0, status, table, missing, np.zeros((1, 0), POOL_STATUS))


def feature_rows(frame: DomainObserved) -> F32:
    """[1, APP, A] features of the apps, in the order of the table."""
    table = np.empty((1, APP.width, len(frame.apps)), np.float32)
    # JSON has larger numbers than a float32, which takes them for infinite.
    with np.errstate(over="ignore"):
        for row, name in enumerate(APP.names):
            table[0, row] = _feature(frame, name)
    np.nan_to_num(table, copy=False)
    return table


def load_row(load_pods: Sequence[float]) -> F32:
    """[1, A] load of a frame's apps, in pods."""
    row: F32 = np.clip(np.array([load_pods]), 0.0, _MOST).astype(np.float32)
    return row


def abridged(frame: DomainObserved, features: Sequence[str]) -> DomainObserved:
    """A frame for a state: without samples, and with these features only.

    Several whole frames of a large domain would not fit into a state record.
    """
    kept = {name: _feature(frame, name) for name in features}
    return replace(frame, measured={}, features=kept)


def _feature(frame: DomainObserved, name: str) -> list[float]:
    if name not in frame.features:
        raise Refused("missing-feature", f"expected `{name}` among the features, got none")
    return frame.features[name]


# Forecasts.


def check_forecast(forecast: DemandForecast) -> None:
    """Raise Refused unless a forecast has the horizons and quantiles of the models."""
    horizons, quantiles = tuple(forecast.horizons_minutes), tuple(forecast.quantiles)
    if (horizons, quantiles) != (HORIZONS_MIN, QUANTILES):
        expected = f"expected horizons {HORIZONS_MIN} and quantiles {QUANTILES}"
        raise Refused("other-horizons", f"{expected}, got {horizons} and {quantiles}")


# Budgets.

Budgets = tuple[BudgetGranted, ...]
"""The newest two of a domain, oldest first. The newest may be made from the same tick that is being
decided, or decided again after a restart: then the one before it is binding."""


_MOST_VALID_MIN: Final = 15
"""Longest validity that is accepted; a Commander's budgets are valid for three minutes."""
_MOST_AHEAD_MIN: Final = 60
"""Budgets may be ahead of a consumer that catches up after an outage of its own."""


def with_budget(
    budgets: Budgets, granted: BudgetGranted, newest_tick: int, per_minute: int
) -> Budgets:
    """Add a budget; the same tuple if its epoch is not newer, however late it arrives.

    `newest_tick` is the consumer's own, -1 before its first. Raises Refused where epoch, tick and
    validity cannot be true.
    """
    _check_budget(granted, budgets, newest_tick, per_minute)
    # A budget is made from plans, so one beyond the consumer's own tick is suspicious. Drop it as
    # soon as a budget within that tick arrives: a forged epoch must not fence out the real ones.
    known = budgets
    if granted.tick <= newest_tick:
        known = tuple(budget for budget in budgets if budget.tick <= newest_tick)
    # The same holds for an epoch ahead of its own tick.
    if granted.epoch <= granted.tick // per_minute:
        known = tuple(budget for budget in known if _in_order(budget, granted, per_minute))
    # Epochs fence: a budget of an older Commander must not replace a newer one.
    if known and granted.epoch <= known[-1].epoch:
        # Before the first tick either epoch may be the real one, so keep both.
        is_open = newest_tick < 0 and granted.epoch not in (budget.epoch for budget in known)
        return (granted, known[-1]) if is_open else budgets
    return (*known[-1:], granted)


def _in_order(earlier: BudgetGranted, granted: BudgetGranted, per_minute: int) -> bool:
    """Whether epoch and tick of a known budget are consistent with those of a later one."""
    normal = earlier.epoch <= earlier.tick // per_minute
    return normal or earlier.epoch < granted.epoch or earlier.tick >= granted.tick


def _check_budget(
    granted: BudgetGranted, budgets: Budgets, newest_tick: int, per_minute: int
) -> None:
    tick, epoch, until = granted.tick, granted.epoch, granted.valid_until_tick
    # An epoch is its minute or, after the cluster's clock was set back, one more than the last.
    most_epoch = max([tick // per_minute, *(budget.epoch + 1 for budget in budgets)])
    if epoch > most_epoch:
        raise Refused("epoch-out-of-range", f"expected an epoch up to {most_epoch}, got {epoch}")
    last = tick + _MOST_VALID_MIN * per_minute
    if not tick <= until <= last:
        raise Refused(OUT_OF_RANGE, f"expected validity from tick {tick} to {last}, got {until}")
    ahead = newest_tick + _MOST_AHEAD_MIN * per_minute
    if newest_tick >= 0 and tick > ahead:
        raise Refused(FUTURE, f"expected a tick up to {ahead}, got {tick}")


def binding_budget(tick: int, budgets: Budgets) -> BudgetGranted | None:
    """The newest budget that was made before the tick."""
    earlier = [budget for budget in budgets if budget.tick < tick]
    return earlier[-1] if earlier else None


def directive_of(granted: BudgetGranted | None, apps: DeclaredApps) -> Directive:
    """Model input of a budget: its own domain's column. Without a budget nothing may grow."""
    directive = no_directive(1, len(apps.domains), len(apps.pools))
    if granted is None:
        return directive
    domain, budget = apps.domain_index(granted.domain), directive.budget
    budget.epoch[0], budget.valid_until_tick[0] = granted.epoch, granted.valid_until_tick
    own: dict[str, float] = {
        "share": granted.share,
        "cores": granted.cores,
        "memory": granted.memory_gib,
        "overdraft": granted.overdraft_cores,
        "floor": granted.floor_cores,
        "urgency": granted.urgency,
        "headroom": granted.headroom - granted.headroom_cut,
        "insured": granted.insured_headroom,
    }
    columns: dict[str, Any] = {
        name: _with_column(getattr(budget, name), domain, min(value, _MOST))
        for name, value in own.items()
    }
    return Directive(
        budget._replace(**columns),
        _with_column(directive.growth, domain, min(granted.growth, _MOST)),
        _with_column(directive.release, domain, granted.release_cores),
    )


def _with_column(values: F64, domain: int, value: float) -> F64:
    # The columns of `no_directive` are one shared array, so each needs its own copy.
    changed = values.copy()
    changed[0, domain] = value
    return changed

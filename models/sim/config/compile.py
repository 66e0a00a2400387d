"""Compile a scenario into the arrays that the kernels loop over.

All draws are functions of the environment's seed and the event's name, so an environment is the
same alone and among others.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from models.cluster.arrays import F32, F64, I32, Mask
from models.cluster.inventory import REQUEST_TYPES, RequestType
from models.sim.config import script
from models.sim.config.events import (
    Crash,
    Deploy,
    Event,
    Inventory,
    Leak,
    MetricsOutage,
    Mix,
    Payload,
    Regime,
    SpotReclaim,
    Target,
    Traffic,
    ZoneLoss,
)
from models.sim.config.physics import RequestWork, SimCluster
from models.sim.config.scenario import Scenario
from models.sim.config.script import Overlays
from models.sim.config.targeting import Grouped, key_of, select
from models.sim.config.timeline import Timeline
from models.sim.config.traces import replay_minutes, replay_series
from models.sim.draws import Purpose, uniform

_PIPELINES: Final = {
    "metrics-server": script.METRICS_SERVER,
    "kubelet": script.KUBELET,
    "exporter": script.EXPORTER,
}
_MODES: Final = {
    "missing": script.OUTAGE_MISSING,
    "zero": script.OUTAGE_ZERO,
    "stale": script.OUTAGE_STALE,
}
_CHANGES: Final = {"appear": script.APPEAR, "vanish": script.VANISH, "move": script.MOVE}

Columns = dict[str, NDArray[Any]]
E = TypeVar("E", bound=Event)


class _Job(NamedTuple):
    """The inputs of every part of the compilation."""

    scenario: Scenario
    cluster: SimCluster
    apps: Grouped
    seeds: Sequence[int]
    times: Timeline

    def of(self, kind: type[E]) -> list[E]:
        """The scenario's events of one kind, in file order."""
        return [event for event in self.scenario.events if isinstance(event, kind)]

    def mask(self, target: Target, name: str) -> Mask:
        """[apps] the target's apps."""
        return select(target, name, self.cluster, self.apps)

    def begin(self, event: Event) -> F64:
        """[environments] ticks at which the event begins, jitter included."""
        jitter = event.jitter_minutes * self._signed_draws(event, Purpose.EVENT_TIME)
        return self.times.tick_at(event.at_minute) + jitter * self.times.ticks(1)

    def size(self, event: Traffic | Payload | Regime, factor: float) -> F64:
        """[environments] the factor with jitter on its change; never negative."""
        # On the change, so that a factor of 1 stays 1 for every seed.
        jitter = event.factor_jitter * self._signed_draws(event, Purpose.EVENT_SIZE)
        return np.maximum(1 + (factor - 1) * (1 + jitter), 0)

    def share(self, event: Mix) -> F64:
        """[environments] the share with jitter, at most 1."""
        jitter = event.share_jitter * self._signed_draws(event, Purpose.EVENT_SIZE)
        return np.minimum(event.share * (1 + jitter), 1)

    def _signed_draws(self, event: Event, purpose: Purpose) -> F64:
        """[environments] draws from -1 to 1."""
        draws = [_draw(seed, purpose, event, 0) for seed in self.seeds]
        return 2 * np.array(draws) - 1


class _Wave(NamedTuple):
    """One row of the traffic and payload overlays."""

    kind: int
    start: F64
    ramp: float
    hold: float
    decay: float
    factor: F64
    weight: F64
    """[apps] share of the factor's change that applies to each app."""


def compile_scenario(
    scenario: Scenario, cluster: SimCluster, apps: Grouped, seeds: Sequence[int]
) -> Overlays:
    """The columns of a scenario, with one environment per seed."""
    job = _Job(scenario, cluster, apps, seeds, scenario.timeline(cluster.tick_seconds))
    return Overlays(
        **_waves(job),
        **_deploys(job),
        **_zones(job),
        **_reclaims(job),
        **_outages(job),
        **_faults(job),
        **_inventory(job),
        **_replays(job),
    )


def _waves(job: _Job) -> Columns:
    waves = [wave for event in job.scenario.events for wave in _waves_of(job, event)]
    weights = np.array([wave.weight for wave in waves], dtype=np.float32)
    return {
        "kind": np.array([wave.kind for wave in waves], dtype=np.int8),
        "start": _by_environment(job, [wave.start for wave in waves]).astype(np.float32),
        "ramp": _at_least_a_tick([wave.ramp for wave in waves]),
        "hold": np.array([wave.hold for wave in waves], dtype=np.float32),
        "decay": _at_least_a_tick([wave.decay for wave in waves]),
        "factor": _by_environment(job, [wave.factor for wave in waves]).astype(np.float32),
        "app_weight": weights.reshape(len(waves), len(job.apps.domain)),
    }


def _waves_of(job: _Job, event: Event) -> list[_Wave]:
    if isinstance(event, Regime):
        return _regime(job, event)
    if not isinstance(event, Traffic | Payload | Mix):
        return []
    return [
        _Wave(
            kind=script.TRAFFIC if isinstance(event, Traffic) else script.PAYLOAD,
            start=job.begin(event),
            ramp=job.times.ticks(event.ramp_minutes),
            hold=job.times.ticks(event.hold_minutes),
            decay=job.times.ticks(event.decay_minutes),
            # A mix shift is a payload wave by the shifted share. `_weight` turns it into work.
            factor=1 + job.share(event)
            if isinstance(event, Mix)
            else job.size(event, event.factor),
            weight=_weight(job, event),
        )
    ]


def _weight(job: _Job, event: Traffic | Payload | Mix) -> F64:
    affected = job.mask(event.target, event.name).astype(np.float64)
    if not isinstance(event, Mix):
        return affected
    work = job.cluster.physics.population.request_work
    return affected * work_change(job.apps.request_mix, work, event.from_type, event.to_type)


def _regime(job: _Job, event: Regime) -> list[_Wave]:
    """High and low waves in turn; the decay of one overlaps the ramp of the next."""
    start = job.begin(event)
    affected = job.mask(event.target, event.name).astype(np.float64)
    ramp = job.times.ticks(event.ramp_minutes)
    waves: list[_Wave] = []
    for _ in range(event.cycles):
        for factor, minutes in ((event.high, event.high_minutes), (event.low, event.low_minutes)):
            hold = job.times.ticks(minutes)
            size = job.size(event, factor)
            waves.append(_Wave(script.TRAFFIC, start, ramp, hold, ramp, size, affected))
            # The next level's ramp begins when this one's hold ends.
            # `_at_least_a_tick` lengthens a ramp of 0, so count it as one tick here, too.
            start = start + max(ramp, 1) + hold
    return waves


def _deploys(job: _Job) -> Columns:
    ticks = np.full((len(job.seeds), len(job.apps.domain)), -1, dtype=np.int32)
    for event in job.of(Deploy):
        begin = job.begin(event)
        over = job.times.ticks(event.over_minutes)
        for app in np.flatnonzero(job.mask(event.target, event.name)):
            # Ordinal 0 is the jitter of the event as a whole.
            spread = [_draw(seed, Purpose.EVENT_TIME, event, int(app) + 1) for seed in job.seeds]
            ticks[:, app] = _round_ticks(begin + over * np.array(spread))
    return {"deploy_tick": ticks}


def _zones(job: _Job) -> Columns:
    events = job.of(ZoneLoss)
    start, end = _spans(job, events)
    zones = [job.cluster.physics.zones.index(event.zone) for event in events]
    return {"zone": np.array(zones, dtype=np.int16), "zone_start": start, "zone_end": end}


def _reclaims(job: _Job) -> Columns:
    events = job.of(SpotReclaim)
    return {
        "reclaim_tick": _round_ticks(_by_environment(job, [job.begin(event) for event in events])),
        "reclaim_share": np.array([event.share for event in events], dtype=np.float32),
    }


def _outages(job: _Job) -> Columns:
    events = job.of(MetricsOutage)
    start, end = _spans(job, events)
    hit = [job.mask(event.target, event.name) for event in events]
    pipelines = [_PIPELINES[event.pipeline] for event in events]
    return {
        "outage_pipeline": np.array(pipelines, dtype=np.int8),
        "outage_mode": np.array([_MODES[event.mode] for event in events], dtype=np.int8),
        "outage_start": start,
        "outage_end": end,
        "outage_app": _by_app(job, hit).astype(np.int8),
    }


def _faults(job: _Job) -> Columns:
    # In file order, as `results.spans` counts them.
    events = [event for event in job.scenario.events if isinstance(event, Leak | Crash)]
    start, end = _spans(job, events)
    sizes = [e.requests_per_hour if isinstance(e, Leak) else e.share_per_minute for e in events]
    kinds = [script.LEAK if isinstance(event, Leak) else script.CRASH for event in events]
    hit = [job.mask(event.target, event.name) for event in events]
    return {
        "fault_kind": np.array(kinds, dtype=np.int8),
        "fault_start": start,
        "fault_end": end,
        "fault_size": np.array(sizes, dtype=np.float32),
        "fault_app": _by_app(job, hit).astype(np.int8),
    }


def _inventory(job: _Job) -> Columns:
    """One row per app, because kernels change one app at a time."""
    rows = [
        (event, int(app))
        for event in job.of(Inventory)
        for app in np.flatnonzero(job.mask(event.target, event.name))
    ]
    domains = [_domain_index(job.cluster, event.to_domain) for event, _ in rows]
    return {
        "inventory_kind": np.array([_CHANGES[event.change] for event, _ in rows], dtype=np.int8),
        "inventory_tick": _round_ticks(
            _by_environment(job, [job.begin(event) for event, _ in rows])
        ),
        "inventory_app": np.array([app for _, app in rows], dtype=np.int32),
        "inventory_domain": np.array(domains, dtype=np.int16),
    }


def _domain_index(cluster: SimCluster, name: str | None) -> int:
    return -1 if name is None else cluster.domain_names.index(name)


def _replays(job: _Job) -> Columns:
    of = np.full(len(job.apps.domain), -1, dtype=np.int32)
    series = np.empty((len(job.scenario.replay), replay_minutes(job.times)), dtype=np.float32)
    # In file order: a later entry overrides an earlier one for the same app.
    for row, entry in enumerate(job.scenario.replay):
        of[job.mask(entry.target, Path(entry.file).name)] = row
        series[row] = replay_series(entry, job.times)
    return {"replay_of": of, "replay": series}


def _spans(job: _Job, events: Sequence[ZoneLoss | MetricsOutage | Leak | Crash]) -> tuple[I32, I32]:
    """[environments, events] first tick, and the tick after the last."""
    start = _by_environment(job, [job.begin(event) for event in events])
    length = np.array([job.times.ticks(event.length_minutes) for event in events])
    return _round_ticks(start), _round_ticks(start + length)


def _by_environment(job: _Job, columns: Sequence[F64]) -> F64:
    """[environments, columns]; keeps the environments when there is no column."""
    # Without columns `np.array` has no axis for the environments, so the shape is stated.
    by_column = np.array(columns, dtype=np.float64).reshape(len(columns), len(job.seeds))
    return np.ascontiguousarray(by_column.T)


def _by_app(job: _Job, rows: Sequence[Mask]) -> Mask:
    """[rows, apps]; keeps the apps when there is no row."""
    return np.array(rows, dtype=np.bool_).reshape(len(rows), len(job.apps.domain))


def _draw(seed: int, purpose: Purpose, event: Event, ordinal: int) -> float:
    # By name, not by position: removing an event leaves the draws of the others unchanged.
    return uniform(seed, int(purpose), key_of(event.name), ordinal, 0)


def _at_least_a_tick(ticks: Sequence[float]) -> NDArray[np.float32]:
    """Kernels divide by the length of ramps, so a step takes one tick."""
    return np.maximum(np.array(ticks, dtype=np.float32), 1)


def _round_ticks(ticks: F64) -> I32:
    """Rounded to ticks, not before the first one."""
    # Jitter may move an event before tick 0, where no kernel would notice it.
    return np.maximum(np.rint(ticks), 0).astype(np.int32)


def mean_work(mix: F32, work: RequestWork) -> F64:
    """[A] mean work of a request over the declared mix, in units of `RequestWork`."""
    return np.asarray(mix.astype(np.float64) @ _by_type(work))


def work_change(mix: F32, work: RequestWork, source: RequestType, target: RequestType) -> F64:
    """[A] relative change of the work per request when all of `source` becomes `target`.

    The calibrated work per request is the mean over the declared mix, so only the change against
    that mix matters.
    """
    index, each = REQUEST_TYPES.index, _by_type(work)
    moved = mix[:, index(source)] * (each[index(target)] - each[index(source)])
    return np.asarray(moved / mean_work(mix, work))


def _by_type(work: RequestWork) -> F64:
    return np.array([getattr(work, name) for name in REQUEST_TYPES])

"""A Vertical Pod Autoscaler per app: recommender and updater, each minute.

The recommender keeps decaying histograms of CPU use per pod and of daily memory peaks, and
recommends the 90th percentile with a margin, between a lower and an upper bound that narrow as
history grows. The updater resizes an app when its requests lie outside the bounds, or when
its pods are old and the recommendation differs by a tenth.

Where this world differs from a cluster: all pods of an app have one request, so a resize covers
the whole app. It happens in place, and pods whose node is full restart elsewhere. The original
lets half of an app's pods restart at a time (its eviction tolerance); here a share of the apps is
resized at a time, those furthest from their target first. Use above a memory limit is measured,
so OOM kills add no extra sample. Zeros count, as in the original.

The original loads a history of eight days. Here an app's first sample stands for its present use,
and its past use is that times past over present traffic, which holds for fixed replicas. Without
a record of traffic the past equals the present.
"""

from typing import Final, NamedTuple

import numpy as np

from models.baselines.decaying import (
    CPU_FIRST,
    MEMORY_FIRST,
    Histograms,
    add_past,
    add_samples,
    empty_histograms,
    percentiles,
)
from models.cluster import rows
from models.cluster.arrays import F32, F64, I32, Mask
from models.cluster.calendar import DAY_MINUTES, HISTORY_MINUTES
from models.cluster.inventory import Inventory
from models.cluster.observation import Observation, Pipeline
from models.cluster.plan import Plan, Reason, hold_plan
from models.forecaster.port import Forecast
from models.sim.world import World, app_history

LOOP_S: Final = 60
"""Both recommender and updater run once a minute by default."""
DAY_S: Final = 86_400
MIN_REPLICAS: Final = 2
"""The updater skips apps with fewer live pods."""
OLD_POD_S: Final = 12 * 3600
"""Age from which the updater also resizes pods inside the bounds; see `WORTHWHILE`."""
WORTHWHILE: Final = 0.1
"""Least difference, as a share of the request and summed over CPU and memory, for such a resize."""
_LEAST_WEIGHT: Final = 0.1
"""A CPU sample weighs its request in cores, at least this much."""
_LEAST_CPU: Final = 25
"""Millicores."""
_LEAST_MEMORY: Final = 250e6
"""Bytes."""
_MIB: Final = 1 << 20
_GIB: Final = 1 << 30
_PAST_EVERY_MIN: Final = 30
"""Minutes between samples of the past."""
_NOW_MIN: Final = 5
"""Minutes whose mean is the traffic at the start."""
_MOST_RELATIVE: Final = 20.0
"""Cap on past over present traffic: an app that is idle at the start gives no useful ratio."""
_SHARES: Final = np.array([0.5, 0.9, 0.95])
"""The recommender's default percentiles of lower bound, target and upper bound."""
_LOWER, _TARGET, _UPPER = range(3)


class Parameters(NamedTuple):
    """The recommender's flags, and what an owner sets per app."""

    margin: float = 0.15
    """Added to every percentile, as a share of it."""
    half_life_h: float = 24.0
    """Hours after which a sample weighs half."""
    history_days: float = 8.0
    """Days of history loaded at the start."""
    updated_share: float = 0.05
    """Largest share of all apps resized per minute, instead of the eviction rate and tolerance.
    Without it, switching VPA on would move every pod at once."""
    least_saturation: float = 0.9
    """VPA does not control the CPU of apps that saturate below this CPU use over request: their
    owners know from load tests that CPU use predicts little (controlledResources: [memory])."""


RANGES: Final[dict[str, tuple[float, float]]] = {"margin": (0.05, 1.0)}


class VpaState(NamedTuple):
    """E environments, A apps."""

    cpu: Histograms
    memory: Histograms
    peak: F64
    """[E, A] bytes per pod, the highest of the current day; 0 before the first sample."""
    peak_weight: F64
    """[E, A] weight of that peak in the histogram."""
    resized: I32
    """[E, A] tick of the last resize; at the start all pods count as old."""
    began: I32
    """[E]."""


class Past(NamedTuple):
    """Traffic before the start: E environments, K moments, A apps."""

    relative: F32
    """[E, K, A] traffic over traffic at the start."""
    age_s: F64
    """[K] seconds before the start."""


class Recommendation(NamedTuple):
    """[3, E, A] each: lower bound, target, upper bound; zero without a sample."""

    cpu: F64
    """Millicores."""
    memory: F64
    """Bytes."""


class Vpa:
    """One VPA per app, in the mode that updates running pods. Replicas stay as they are."""

    name = "vpa"

    def __init__(
        self,
        inventory: Inventory,
        pools: int,
        parameters: Parameters | None = None,
        pipeline: Pipeline = Pipeline.OURS,
        past: Past | None = None,
    ) -> None:
        """With HPA's pipeline, which carries no memory use, VPA controls CPU only."""
        self._past = past
        self.pipeline = pipeline
        self._parameters = parameters or Parameters()
        self._pools = pools
        self._tick_s = inventory.tick_s
        self._controls_cpu = inventory.saturation >= self._parameters.least_saturation
        self._controls_memory = pipeline == Pipeline.OURS

    def start(self, observation: Observation) -> VpaState:
        """Empty histograms; the first sample also adds its history."""
        shape = observation.missing.shape
        old = observation.tick[:, None] - OLD_POD_S // self._tick_s
        return VpaState(
            cpu=empty_histograms(*shape),
            memory=empty_histograms(*shape),
            peak=np.zeros(shape),
            peak_weight=np.zeros(shape),
            resized=np.broadcast_to(old, shape).astype(np.int32),
            began=observation.tick.copy(),
        )

    def step(
        self,
        observation: Observation,
        forecast: Forecast | None,  # noqa: ARG002  every controller has this shape
        state: VpaState,
    ) -> tuple[Plan, VpaState]:
        """Once a minute take a sample, recommend and update; hold in between."""
        # Environments of a world share the tick, so the first one is enough.
        if observation.tick[0] * self._tick_s % LOOP_S >= self._tick_s:
            return hold_plan(observation, self._pools, Reason.HOLD_NOT_DUE), state
        self._sample_cpu(observation, state)
        if self._controls_memory:
            state = self._sample_memory(observation, state)
        return self._update(observation, self.recommend(observation, state), state)

    def recommend(self, observation: Observation, state: VpaState) -> Recommendation:
        """Percentiles with margin, confidence and minimum."""
        days = self._parameters.history_days + self._age_s(observation, state) / DAY_S
        # The original's confidence multipliers of lower bound, target and upper bound. With little
        # history the upper bound is far above, so that pods are not resized on a few samples.
        confidence = np.stack([(1 + 0.001 / days) ** -2, np.ones_like(days), 1 + 1 / days]) * (
            1 + self._parameters.margin
        )
        found = np.zeros((2, len(_SHARES), *observation.missing.shape))
        percentiles(state.cpu, _SHARES, CPU_FIRST, found[0])
        percentiles(state.memory, _SHARES, MEMORY_FIRST, found[1])
        cpu, memory = found * confidence[:, :, None]
        return Recommendation(
            np.where(cpu > 0, np.maximum(1000 * cpu, _LEAST_CPU), 0.0),
            np.where(memory > 0, np.maximum(memory, _LEAST_MEMORY), 0.0),
        )

    def _age_s(self, observation: Observation, state: VpaState) -> F64:
        """[E] seconds since the start, at least one loop: the first sample ends the first one."""
        seconds = (observation.tick - state.began).astype(np.float64) * self._tick_s
        age: F64 = np.maximum(seconds, LOOP_S)
        return age

    def _growth(self, observation: Observation, state: VpaState) -> F64:
        """[E, 1] weight of a present sample over one of the start."""
        half_lives = self._age_s(observation, state) / (3600 * self._parameters.half_life_h)
        growth: F64 = np.exp2(half_lives)[:, None]
        return growth

    def _history(self, period_s: float) -> float:
        """Decayed weight of the samples, one per period, of the days before the start."""
        count = np.arange(1, round(self._parameters.history_days * DAY_S / period_s) + 1)
        ages = count * period_s / (3600 * self._parameters.half_life_h)
        return float(np.exp2(-ages).sum())

    def _sample_cpu(self, observation: Observation, state: VpaState) -> None:
        """Each pod is a sample; load balancing gives all pods of an app the same load."""
        pods = observation.measured[:, rows.PODS].astype(np.float64)
        valid = (observation.missing == 0) & (pods > 0) & self._controls_cpu
        per_pod = observation.measured[:, rows.CPU] / np.maximum(1.0, pods)
        cores = np.maximum(_LEAST_WEIGHT, 0.001 * observation.status[:, rows.CPU_REQUEST])
        weight = np.where(valid, pods * cores, 0.0)
        # Before this sample is added: an empty histogram marks the apps that lack their history.
        self._load_past(per_pod, np.where(state.cpu.total == 0, weight, 0.0), state)
        add_samples(state.cpu, per_pod, weight * self._growth(observation, state), CPU_FIRST)

    def _load_past(self, per_pod: F64, weight: F64, state: VpaState) -> None:
        """Add the history of apps with a weight: these have their first sample now."""
        if not weight.any():
            return
        whole = self._history(LOOP_S)
        if self._past is None:
            add_samples(state.cpu, per_pod, weight * whole, CPU_FIRST)
            return
        decayed = np.exp2(-self._past.age_s / (3600 * self._parameters.half_life_h))
        # The record has a moment each half hour; together they weigh as much as a sample a minute.
        shares = decayed * (whole / decayed.sum())
        add_past(state.cpu, per_pod, weight, self._past.relative, shares, CPU_FIRST)

    def _sample_memory(self, observation: Observation, state: VpaState) -> VpaState:
        """A day's peak is one sample; a higher one of the same day replaces it."""
        status = observation.status
        # Restarting pods hold memory too, and the sample is some seconds old: take the largest
        # count, because too small a count would read as a peak.
        running = np.maximum(
            status[:, rows.REPLICAS] - status[:, rows.PENDING],
            status[:, rows.READY] + status[:, rows.STARTING],
        )
        pods = np.maximum(observation.measured[:, rows.PODS], running).astype(np.float64)
        per_pod = _GIB * observation.measured[:, rows.MEMORY] / np.maximum(1.0, pods)
        valid = (observation.missing == 0) & (observation.measured[:, rows.MEMORY] > 0)
        fresh = self._new_day(observation, state)[:, None] & valid
        weight = np.broadcast_to(self._growth(observation, state), per_pod.shape)
        first = valid & (state.memory.total == 0)
        add_samples(state.memory, per_pod, np.where(first, self._history(DAY_S), 0.0), MEMORY_FIRST)
        higher = valid & (fresh | (per_pod > state.peak))
        # Stored weights never decay, so the weight that was added is the one to remove.
        taken_back = np.where(higher & ~fresh, -state.peak_weight, 0.0)
        add_samples(state.memory, state.peak, taken_back, MEMORY_FIRST)
        add_samples(state.memory, per_pod, np.where(higher, weight, 0.0), MEMORY_FIRST)
        return state._replace(
            peak=np.where(higher, per_pod, state.peak),
            peak_weight=np.where(higher, weight, state.peak_weight),
        )

    def _new_day(self, observation: Observation, state: VpaState) -> Mask:
        since = (observation.tick - state.began) * self._tick_s
        begins: Mask = (since > 0) & (since % DAY_S < LOOP_S)
        return begins

    def _update(
        self, observation: Observation, recommended: Recommendation, state: VpaState
    ) -> tuple[Plan, VpaState]:
        status = observation.status
        cpu, memory = status[:, rows.CPU_REQUEST], status[:, rows.MEMORY_REQUEST]
        in_mib = recommended.memory / _MIB
        outside = _outside(cpu, recommended.cpu) | _outside(memory, in_mib)
        difference = _difference(cpu, recommended.cpu) + _difference(memory, in_mib)
        age_s = (observation.tick[:, None] - state.resized) * self._tick_s
        wanted = outside | ((age_s >= OLD_POD_S) & (difference >= WORTHWHILE))
        # Restarting the only pod would take the app down.
        alive = (
            status[:, rows.READY] + status[:, rows.STARTING] + status[:, rows.PENDING]
            >= MIN_REPLICAS
        )
        due = self._first(wanted & alive, difference)
        plan = hold_plan(observation, self._pools, Reason.HOLD_IN_TOLERANCE)
        cpu_target, memory_target = recommended.cpu[_TARGET], in_mib[_TARGET]
        # A target of zero means no sample yet: keep the request.
        new_cpu = np.where(due & (cpu_target > 0), np.ceil(cpu_target), cpu)
        new_memory = np.where(due & (memory_target > 0), np.ceil(memory_target), memory)
        plan = plan._replace(
            cpu=new_cpu.astype(np.int32),
            memory=new_memory.astype(np.int32),
            reason=np.where(due, int(Reason.RESIZE), plan.reason).astype(np.int32),
        )
        ticks = np.broadcast_to(observation.tick[:, None], due.shape)
        return plan, state._replace(resized=np.where(due, ticks, state.resized).astype(np.int32))

    def _first(self, wanted: Mask, difference: F64) -> Mask:
        """[E, A] the most important of the wanted updates, as many as a minute allows."""
        most = max(1, round(self._parameters.updated_share * wanted.shape[1]))
        # Stable, so that apps with equal differences are resized in the same order in every run.
        order = np.argsort(np.where(wanted, -difference, np.inf), axis=1, kind="stable")
        first = np.zeros_like(wanted)
        np.put_along_axis(first, order[:, :most], True, axis=1)
        return wanted & first


def _outside(request: I32, bounds: F64) -> Mask:
    """Whether requests are outside the bounds; False where the bounds are unknown."""
    known = bounds[_TARGET] > 0
    beyond: Mask = known & ((request < bounds[_LOWER]) | (request > bounds[_UPPER]))
    return beyond


def _difference(request: I32, bounds: F64) -> F64:
    """Distance of the target from the request, as a share of the request."""
    apart: F64 = np.abs(bounds[_TARGET] - request) / np.maximum(1, request)
    return np.where(bounds[_TARGET] > 0, apart, 0.0)


def past_of(world: World, days: float) -> Past:
    """Traffic of the days before the world, from the records that forecasters use."""
    minutes = min(HISTORY_MINUTES, round(days * DAY_MINUTES))
    ages = np.arange(_PAST_EVERY_MIN, minutes, _PAST_EVERY_MIN)
    relative = np.zeros((world.environments, ages.size, world.given.apps.size), np.float32)
    for e in range(world.environments):
        traffic = app_history(world, e, minutes)
        now = np.maximum(traffic[-_NOW_MIN:].mean(axis=0), 1e-6)
        relative[e] = np.minimum(traffic[-ages] / now, _MOST_RELATIVE)
    return Past(relative, 60 * ages.astype(np.float64))


def vpa_of(world: World, parameters: Parameters | None = None) -> Vpa:
    """A new VPA per app of the world."""
    chosen = parameters or Parameters()
    return Vpa(
        world.inventory,
        world.layout.pools,
        chosen,
        past=past_of(world, chosen.history_days),
    )

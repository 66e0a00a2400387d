"""A Horizontal Pod Autoscaler per app of a world: one metric, CPU utilisation of the request.

HPAs have no `behavior` field unless one is given: most users write none and the API does not fill
it in. Then the highest recommendation of the last 300 s counts, and one step at most doubles the
replicas, or reaches four.

The controller syncs every 15 s, the world ticks every 10 s. Each HPA has its own phase and syncs
in two of three ticks, those that contain a multiple of 15 s since that phase. For the rules of
`behavior` these syncs are 15 s apart, as for the real controller. For the window without it they
are as old as their ticks, which is the same for multiples of 30 s.
"""

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.baselines.hpa.behaviour import BehaviourMemory, behave, empty_memory, store_change
from models.baselines.hpa.observed import (
    FORGET,
    REFILL,
    HpaInputs,
    recommend_all,
    recommend_with_missing_pods,
)
from models.baselines.hpa.settings import (
    DOWNSCALE_WINDOW_S,
    Behaviour,
    BehaviourRules,
    Bounds,
    compile_rules,
)
from models.baselines.hpa.window import (
    ABSENT,
    NO_METRIC,
    NOT_DUE,
    Window,
    empty_window,
    forget,
    limit,
    open_step,
    stabilise,
)
from models.cluster import rows
from models.cluster.arrays import F64, I32
from models.cluster.inventory import Inventory
from models.cluster.observation import Observation, Pipeline
from models.cluster.plan import Plan, Reason, empty_plan
from models.forecaster.port import Forecast
from models.jit import copy_row, kernel
from models.sim.draws import Purpose, uniform
from models.sim.state import NONE
from models.sim.world import World

SYNC_S: Final = 15
"""The controller's flag --horizontal-pod-autoscaler-sync-period."""
TOLERANCE: Final = 0.1
"""The controller's flag --horizontal-pod-autoscaler-tolerance."""
SYNC_MILLIS: Final = 1000 * SYNC_S

_IN_TOLERANCE = int(Reason.HOLD_IN_TOLERANCE)
_OUT = int(Reason.SCALE_OUT)
_IN = int(Reason.SCALE_IN)
_STABILISING = int(Reason.HOLD_STABILISING)
_NO_METRICS = int(Reason.HOLD_NO_METRICS)
_NOT_DUE = int(Reason.HOLD_NOT_DUE)


Integers = NDArray[Any]
"""32 or 64 bits wide, as in `Window` and `BehaviourMemory`."""


class HpaState(NamedTuple):
    """The fields of a `Window` and a `BehaviourMemory`, with a leading environment axis.

    The arrays of the memory are empty unless an HPA has a behaviour.
    """

    highest_from: Integers
    highest: Integers
    millis: Integers
    marks: Integers
    recommended: Integers
    recommendations: Integers
    changed: Integers
    changes: Integers


class Clock(NamedTuple):
    """When each HPA syncs."""

    schedule: I32
    """[ticks of a cycle, A] see `sync_schedule`."""
    syncs_per_cycle: int
    tick_millis: int
    window_millis: int
    """The controller's downscale window."""


class Parameters(NamedTuple):
    """What calibration tunes. Window and rates keep the API's defaults, as most HPAs have them."""

    target: float = 0.75
    """CPU use, as a share of the use at which an app saturates."""


RANGES: Final[dict[str, tuple[float, float]]] = {"target": (0.4, 0.95)}


class Hpa:
    """One HPA per app; the target is a share of the CPU at which the app saturates.

    `target` and `tolerance` (up, down) may be arrays over the apps, `behaviour` a sequence.
    """

    name = "hpa"
    pipeline = Pipeline.HPA

    def __init__(
        self,
        inventory: Inventory,
        pools: int,
        tick_s: int,
        target: float | F64 = 0.75,
        tolerance: tuple[float | F64, float | F64] = (TOLERANCE, TOLERANCE),
        behaviour: Behaviour | Sequence[Behaviour | None] | None = None,
        downscale_window_s: int = DOWNSCALE_WINDOW_S,
    ) -> None:
        apps = inventory.domain.size
        behaviours = list(behaviour) if isinstance(behaviour, Sequence) else [behaviour] * apps
        up, down = tolerance
        self._pools = pools
        self._bounds = Bounds(
            # The API takes whole percents of the request, from 1 on.
            target=np.atleast_2d(
                np.maximum(1.0, np.round(100.0 * target * inventory.saturation)).astype(float)
            ),
            low=np.broadcast_to(1.0 - np.asarray(down, float), apps).copy(),
            high=np.broadcast_to(1.0 + np.asarray(up, float), apps).copy(),
            least=inventory.min_replicas,
            most=inventory.max_replicas,
        )
        self._rules = compile_rules(behaviours, downscale_window_s)
        self._clock = Clock(
            schedule=sync_schedule(apps, tick_s),
            syncs_per_cycle=math.lcm(tick_s, SYNC_S) // SYNC_S,
            tick_millis=1000 * tick_s,
            window_millis=1000 * downscale_window_s,
        )
        self._plan = empty_plan(0, apps, pools)

    def start(self, observation: Observation) -> HpaState:
        """An empty memory; the first sync starts with the replicas it finds."""
        environments, apps = observation.missing.shape
        # The window includes its end and the present.
        steps = self._clock.window_millis // self._clock.tick_millis + 2
        behaving = apps if self._rules.set.any() else 0
        # The first sync stores two recommendations, and an expired period is still listed.
        longest = (int(self._rules.window.max()), int(self._rules.longest.max()))
        recommendations, events = (length // SYNC_MILLIS + 3 for length in longest)
        memory = empty_memory(recommendations, events, behaving)
        parts: tuple[Integers, ...] = (*empty_window(steps, apps), *memory)
        return HpaState(*(np.repeat(part[None], environments, axis=0) for part in parts))

    def step(
        self,
        observation: Observation,
        forecast: Forecast | None,  # noqa: ARG002  every controller has this shape; HPA only reacts
        state: HpaState,
    ) -> tuple[Plan, HpaState]:
        """Sync the HPAs that are due; the others hold."""
        environments, apps = observation.missing.shape
        # Plan and state are overwritten in place: copy what has to outlive the next step.
        if self._plan.replicas.shape[0] != environments:
            self._plan = empty_plan(environments, apps, self._pools)
        _sync(observation, state, self._plan, self._bounds, self._rules, self._clock)
        return self._plan, state


def sync_schedule(apps: int, tick_s: int) -> I32:
    """[ticks of a cycle, A] index of the sync within the cycle, NONE where none is due.

    A cycle is the least common multiple of tick and sync period: 3 ticks, 2 syncs.
    """
    cycle = math.lcm(tick_s, SYNC_S) // tick_s
    schedule = np.full((cycle, apps), NONE, np.int32)
    for app in range(apps):
        # Drawn with a fixed seed: one schedule serves all environments, whatever their seeds.
        phase = int(SYNC_S * uniform(0, Purpose.HPA_PHASE, app, 0, 0))
        before = (phase - tick_s) // SYNC_S
        for tick in range(cycle):
            sync = (tick * tick_s + phase) // SYNC_S
            if sync != before:
                schedule[tick, app] = sync
            before = sync
    return schedule


@kernel
def _sync(
    obs: Observation,
    state: HpaState,
    plan: Plan,
    bounds: Bounds,
    rules: BehaviourRules,
    clock: Clock,
) -> None:
    """All rules over all apps; until the end, the row of reasons holds what is wanted."""
    for e in range(obs.tick.size):
        status, measured, tick = obs.status[e], obs.measured[e], obs.tick[e]
        current, wanted, replicas = status[rows.REPLICAS], plan.reason[e], plan.replicas[e]
        cycle = tick // clock.schedule.shape[0]
        due = clock.schedule[tick - cycle * clock.schedule.shape[0]]
        window = Window(
            state.highest_from[e], state.highest[e], state.millis[e],
            state.marks[e],
        )  # fmt: skip
        inputs = HpaInputs(
            obs.missing[e], measured[rows.CPU], measured[rows.PODS], status[rows.ACTIVE], current,
            status[rows.READY], status[rows.STARTING], status[rows.PENDING],
            status[rows.CPU_REQUEST],
        )  # fmt: skip
        # HPA changes replicas only: the plan repeats the present requests.
        copy_row(status[rows.CPU_REQUEST], plan.cpu[e])
        copy_row(status[rows.MEMORY_REQUEST], plan.memory[e])
        target = bounds.target[e % bounds.target.shape[0]]
        recommend_all(inputs, bounds, target, due, window.highest, wanted, replicas)
        _finish(inputs, bounds, target, window, replicas, wanted)
        open_step(window, tick * clock.tick_millis, clock.window_millis)
        stabilise(window, wanted, current, replicas)
        limit(wanted, current, bounds.least, bounds.most, replicas)
        # All apps went through the window above, because few have a behaviour and a loop without a
        # branch is vectorised. Those that have one are decided again.
        if state.recommendations.shape[1] > 0:
            memory = BehaviourMemory(
                state.recommended[e], state.recommendations[e], state.changed[e], state.changes[e]
            )
            first = cycle * clock.syncs_per_cycle
            behave_all(rules, memory, bounds, wanted, current, due, first, replicas)
        explain(wanted, current, bounds.most, replicas)


@kernel
def _finish(
    inputs: HpaInputs, bounds: Bounds, target: F64, window: Window, follow_up: I32, wanted: I32
) -> None:
    """Do the follow-ups of `recommend_all`. They are rare: search for them eight apps at a time."""
    whole = follow_up.size - follow_up.size % 8
    for start in range(0, whole, 8):
        if _any_of_eight(follow_up, start):
            for app in range(start, start + 8):
                _finish_app(inputs, bounds, target, window, follow_up, wanted, app)
    for app in range(whole, follow_up.size):
        _finish_app(inputs, bounds, target, window, follow_up, wanted, app)


@kernel
def _any_of_eight(follow_up: I32, i: int) -> bool:
    # Written out: a loop this short is not vectorised.
    low = follow_up[i] | follow_up[i + 1] | follow_up[i + 2] | follow_up[i + 3]
    high = follow_up[i + 4] | follow_up[i + 5] | follow_up[i + 6] | follow_up[i + 7]
    return bool((low | high) != 0)


@kernel
def _finish_app(
    inputs: HpaInputs,
    bounds: Bounds,
    target: F64,
    window: Window,
    follow_up: I32,
    wanted: I32,
    app: int,
) -> None:
    if follow_up[app] == REFILL:
        wanted[app] = recommend_with_missing_pods(inputs, bounds, target, app)
    elif follow_up[app] == FORGET:
        forget(window, app)


@kernel
def behave_all(
    rules: BehaviourRules, memory: BehaviourMemory, bounds: Bounds, wanted: I32, current: I32,
    due: I32, first: int, replicas: I32,
) -> None:  # fmt: skip
    """Replace the decisions of HPAs that have a behaviour."""
    for app in range(replicas.size):
        if rules.set[app] == 0:
            continue
        # Time by syncs, not by ticks: apart by exactly 15 s, so that a change of the sync before is
        # outside a period of 15 s, as it normally is in the real controller.
        now, before = (first + due[app]) * SYNC_MILLIS, current[app]
        replicas[app] = behave(
            rules, memory, app, wanted[app], before, bounds.least[app], bounds.most[app], now
        )
        if replicas[app] != before:
            store_change(rules, memory, app, before, replicas[app], now)


@kernel
def explain(wanted: I32, current: I32, most: I32, replicas: I32) -> None:
    """Replace the recommendations in `wanted` by the reasons of the decisions."""
    for app in range(wanted.size):
        now, recommended = current[app], wanted[app]
        waits = 0 <= recommended < now or (recommended > now and now < most[app])
        # The last match wins: without a sync nothing else was checked, without a metric no window.
        held = _STABILISING if waits else _IN_TOLERANCE
        held = _NO_METRICS if recommended in (NO_METRIC, ABSENT) else held
        held = _NOT_DUE if recommended == NOT_DUE else held
        moved = _OUT if replicas[app] > now else _IN
        wanted[app] = held if replicas[app] == now else moved


def hpa_of(world: World, parameters: Parameters | None = None) -> Hpa:
    """A new HPA per app of the world."""
    chosen = parameters or Parameters()
    inventory = world.inventory
    return Hpa(inventory, world.layout.pools, inventory.tick_s, target=chosen.target)

"""The controller of the estimate: it reads the future traffic and acts under the same rules.

Pods and nodes take as long and cost as much as under other controllers. It foresees traffic,
deploys and node losses, but not which node a pod lands on, nor which containers crash.
"""

import math
from typing import Final, NamedTuple

import numpy as np

from models.baselines.clairvoyant.need import deploying, needed_pods, pods_for, prices_of
from models.baselines.clairvoyant.nodes import due_nodes, short_nodes, supply_of
from models.cluster import rows
from models.cluster.arrays import F32, I32
from models.cluster.observation import Observation, Pipeline
from models.cluster.plan import Plan, Reason, empty_plan
from models.forecaster.port import Forecast
from models.forecaster.simulated.future import future_of
from models.sim.nodes import SPOT
from models.sim.state import RETRY, SAMPLE_RING
from models.sim.world import World

NAME: Final = "clairvoyant"
_THRIFT: Final = 0.5
"""Price of a pod over its share of a node: nodes are released late and only in part."""
_SPARE: Final = 1.02
"""Factor on pods, for containers that crash and nodes that are drained."""
_RETRY_SHARE: Final = 0.002
"""Share of retries in the traffic from which on retries may grow by themselves."""
_EXCESS_TRAFFIC: Final = 1.15
"""Traffic over expected traffic from which on callers must be retrying."""
_POD_TICKS: Final = 9
"""From the plan to ready, for nearly all pods that find a node."""
_BOOT_TICKS: Final = 5
"""From the launch of a node to ready."""
_KEEP_TICKS: Final = 66
"""A node is released after ten minutes of little use: scaling in for less saves nothing."""
_AHEAD_MIN: Final = 25
"""How far ahead the largest need has to be requested."""
_UNEVEN: Final = 1.2
"""Factor on the lost share: pods are not spread quite evenly over nodes."""
_MOST_LOST: Final = 0.6
"""Cap on the lost share, so that a loss at most multiplies the pods by 2.5."""


class Loss(NamedTuple):
    """Nodes that one environment loses at a known tick."""

    tick: int
    zone: bool
    share: float
    """Of all nodes if a zone is lost, of the spot nodes if spot nodes are reclaimed."""


def losses_of(world: World) -> list[list[Loss]]:
    """The scripted losses of each environment."""
    script, zones = world.given.script, len(world.cluster.physics.zones)
    found: list[list[Loss]] = []
    for e in range(world.environments):
        lost = [Loss(int(row["start"]), True, 1 / zones) for row in script.zones[e]]
        taken = [Loss(int(row["tick"]), False, float(row["share"])) for row in script.reclaims[e]]
        found.append(lost + taken)
    return found


def lost_share(world: World, e: int, loss: Loss, own_pool: I32) -> F32:
    """[A] share of each app's pods that a loss removes, by the present nodes."""
    apps = world.given.apps.size
    if loss.zone:
        return np.full(apps, min(_MOST_LOST, loss.share * _UNEVEN), np.float32)
    market = world.state.pool_market[e]
    spot = market[:, SPOT] / np.maximum(1, market.sum(axis=1))
    share = np.minimum(_MOST_LOST, spot * loss.share * _UNEVEN)
    return np.asarray(share[own_pool[world.state.status[e, rows.DOMAIN]]], np.float32)


class Clairvoyant:
    """A controller for one world, whose state and future it reads."""

    name = NAME
    pipeline = Pipeline.OURS

    def __init__(self, world: World) -> None:
        self._world = world
        self._per_minute = int(world.given.rules.physics["ticks_per_minute"][0])
        self._placed = int(world.given.rules.physics["placements_per_tick"][0])
        future = future_of(world, self._per_minute)
        # Unready pods of a deploy serve nothing, and its surge pods need room on nodes in addition.
        busy = deploying(world, future.rps.shape[1], self._per_minute)
        self._pods = np.ceil(needed_pods(world, future, busy, _THRIFT) * _SPARE).astype(np.int32)
        surge = float(world.given.rules.physics["max_surge"][0])
        self._surge = np.ceil(self._pods * surge).astype(np.int32) * busy
        self._payload = future.payload
        self._rps = future.rps
        self._prices = prices_of(world, _THRIFT)
        self._losses = losses_of(world)
        self._supply = supply_of(world.given.rules)
        self._least = world.population.apps.min_replicas
        self._most = world.population.apps.max_replicas

    def start(self, observation: Observation) -> None:
        """No state: every step reads the world."""

    def step(
        self,
        observation: Observation,
        forecast: Forecast | None,  # noqa: ARG002  the interface; it reads the future itself
        state: None,
    ) -> tuple[Plan, None]:
        """What the next minutes will need, requested no earlier than necessary."""
        environments, apps = observation.missing.shape
        plan = empty_plan(environments, apps, self._supply.cpu.size)
        # Nodes come from this plan's request only; pending pods would request their own as well.
        plan.coordinated[:] = 1
        plan.cpu[:] = observation.status[:, rows.CPU_REQUEST]
        plan.memory[:] = observation.status[:, rows.MEMORY_REQUEST]
        for e in range(environments):
            plan.replicas[e] = self._replicas(observation, e)
            if int(observation.tick[e]) % self._per_minute == 0:
                plan.nodes[e, :, 0] = self._nodes(observation, e)
        change = plan.replicas - observation.status[:, rows.REPLICAS]
        plan.reason[change > 0] = Reason.SCALE_OUT
        plan.reason[change < 0] = Reason.SCALE_IN
        return plan, state

    def _replicas(self, observation: Observation, e: int) -> I32:
        """[A] scale out for the next minutes, scale in only to what later minutes need."""
        tick, current = int(observation.tick[e]), observation.status[e, rows.REPLICAS]
        soon = self._highest(e, tick, tick + _POD_TICKS)
        # The scheduler places a limited number of pods per tick: plan a rush earlier by the ticks
        # that placing it takes.
        rush = self._highest(e, tick, tick + 3 * _POD_TICKS)
        wait = math.ceil(np.maximum(0, rush - current).sum() / self._placed)
        up = self._highest(e, tick, tick + _POD_TICKS + wait) if wait > 1 else soon
        down = self._highest(e, tick, tick + _KEEP_TICKS)
        # Keep pods that will be needed again before their node could be released.
        wanted: I32 = np.maximum(up, np.minimum(current, down))
        wanted = np.maximum(wanted, self._rescue(e, tick))
        return np.clip(wanted, self._least, self._most).astype(np.int32)

    def _rescue(self, e: int, tick: int) -> I32:
        """[A] pods for apps that have fallen behind: retries add to the expected traffic."""
        minute = tick // self._per_minute
        # From the world, not from the observation, which is late.
        arriving = self._world.state.samples[e, (tick - 1) % SAMPLE_RING, rows.RPS]
        retries = self._world.state.flow[e, RETRY] / self._world.cluster.tick_seconds
        behind = (retries > _RETRY_SHARE * arriving) | (
            arriving > _EXCESS_TRAFFIC * self._rps[e, minute]
        )
        pods = pods_for(self._prices, arriving, self._payload[e, minute])
        rescue: I32 = np.where(behind, np.ceil(pods), 0).astype(np.int32)
        return rescue

    def _highest(self, e: int, first_tick: int, last_tick: int) -> I32:
        """[A] most pods needed between two ticks, the minute before the first included."""
        first = max(0, first_tick // self._per_minute - 1)
        last = last_tick // self._per_minute
        pods: I32 = self._pods[e, first : last + 1].max(axis=0)
        for loss in self._losses[e]:
            if first_tick < loss.tick <= last_tick:
                pods = self._surviving(e, loss, pods)
        return pods

    def _surviving(self, e: int, loss: Loss, pods: I32) -> I32:
        """[A] pods of which enough remain after a loss."""
        share = lost_share(self._world, e, loss, self._supply.own)
        left: I32 = np.ceil(pods / (1 - share)).astype(np.int32)
        return left

    def _nodes(self, observation: Observation, e: int) -> I32:
        """[P] nodes to request now."""
        tick = int(observation.tick[e])
        lead = _POD_TICKS + _BOOT_TICKS
        ahead = np.arange(0, _AHEAD_MIN * self._per_minute, self._per_minute)
        short = []
        for ticks in ahead:
            step = min((tick + int(ticks)) // self._per_minute, self._pods.shape[1] - 1)
            pods = self._highest(e, tick + int(ticks), tick + int(ticks) + self._per_minute)
            short.append(short_nodes(self._supply, observation, e, pods + self._surge[e, step]))
        # A request takes effect after both delays: the node boots, then its pods start.
        due = due_nodes(np.array(short), (ahead - lead).astype(np.int32), self._supply.per_tick)
        return np.ceil(due).astype(np.int32)


def clairvoyant_of(world: World) -> Clairvoyant:
    """A new controller for the world; enter it on the scheduler by priority, without preemption."""
    return Clairvoyant(world)

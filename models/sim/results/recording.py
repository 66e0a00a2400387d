"""A recording of one environment, tick by tick and domain by domain.

It has the true state, not an observation: plots, the live view and failure detection read it;
controllers must not.
"""

from typing import NamedTuple

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F64, I32, MILLI
from models.sim.accounting import VIOLATED, WAIT_BINS
from models.sim.state import BOOST, BOUND, COORDINATED, RATE, RETRY, SAMPLE_RING
from models.sim.world import World

ASKING_S = 30
"""An app asks for nodes while it has pods without a node that were needed within this time, unless
a plan coordinates their pool."""


class Recording(NamedTuple):
    """T ticks from the start of the warm-up, D domains, P pools. Future ticks are zero."""

    rps: F64
    """[T, D] requests per second that arrive, calls and retries included."""
    retries: F64
    """[T, D] the part of them that are retries."""
    outside: F64
    """[T, D] requests per second from outside the cluster."""
    served: F64
    """[T, D] answers per second."""
    errors: F64
    """[T, D] failing share of the requests."""
    p99_ms: F64
    """[T, D] mean of the apps' 99th percentiles, weighted by traffic."""
    p99_over_target: F64
    """[T, D] the same over each app's own target, without best-effort apps."""
    violating: F64
    """[T, D] share of the requests that fail, time out or are slower than their target."""
    ready: I32
    """[T, D] pods."""
    starting: I32
    """[T, D] pods that have a node and are not ready."""
    pending: I32
    """[T, D] pods without a node."""
    asking: I32
    """[T, D] apps that ask for nodes, see ASKING_S."""
    waited_s: F64
    """[T, D] longest wait of a pod that is waiting for a node."""
    held: F64
    """[T, D] share of the ready CPU that bound pods request."""
    waits: I32
    """[T, D, WAIT_BINS] pods bound in this tick, by ticks from need to ready."""
    cpu_use: F64
    """[T] used over ready CPU of the cluster."""
    nodes_ready: I32
    """[T, P]."""
    nodes_booting: I32
    """[T, P]."""
    nodes_asked: I32
    """[T, P] nodes that wait for the cloud to start them."""


class Recorder:
    """Records one environment; call it after each tick."""

    def __init__(self, world: World, environment: int = 0) -> None:
        self._e = environment
        self._targets = world.population.apps.latency_target.astype(np.float64)
        self._violated = np.zeros(world.layout.domains)
        self._retries = np.zeros(world.layout.domains)
        self._waits = np.zeros((world.layout.domains, WAIT_BINS), np.int64)
        self.recording = _empty(world.timeline.total_ticks, world)
        self.ticks = 0
        """Recorded so far."""

    def __call__(self, world: World) -> None:
        """Record the tick that the world has just finished."""
        tick = world.tick - 1
        if tick == world.timeline.warmup_ticks:
            # The accounts were reset at this tick.
            self._violated[:], self._waits[:] = 0, 0
        self._record_service(world, tick)
        self._record_pods(world, tick)
        self._record_queue(world, tick)
        self._record_nodes(world, tick)
        self.ticks = world.tick

    def _record_service(self, world: World, tick: int) -> None:
        sample = world.state.samples[self._e, tick % SAMPLE_RING].astype(np.float64)
        domain, record = world.state.status[self._e, rows.DOMAIN], self.recording
        domains = self._violated.size
        rps = np.bincount(domain, sample[rows.RPS], domains)
        traffic = np.maximum(rps, 1e-9)
        record.rps[tick] = rps
        flow = world.state.flow[self._e]
        record.outside[tick] = np.bincount(domain, flow[RATE] * flow[BOOST], domains)
        # What a tick leaves to be sent again arrives in the next.
        record.retries[tick] = self._retries / world.cluster.tick_seconds
        self._retries[:] = np.bincount(domain, flow[RETRY], domains)
        record.served[tick] = np.bincount(domain, sample[rows.THROUGHPUT], domains)
        record.errors[tick] = (
            np.bincount(domain, sample[rows.RPS] * sample[rows.ERRORS], domains) / traffic
        )
        record.p99_ms[tick] = (
            1000 * np.bincount(domain, sample[rows.RPS] * sample[rows.P99], domains) / traffic
        )
        # Targets of best-effort apps are infinite.
        with_target = np.where(np.isfinite(self._targets), sample[rows.RPS], 0)
        over = np.bincount(domain, with_target * sample[rows.P99] / self._targets, domains)
        record.p99_over_target[tick] = over / np.maximum(
            np.bincount(domain, with_target, domains), 1e-9
        )
        # Closed minutes are summed by domain, the current minute by app.
        closed, current = world.accounts.domains[self._e], world.accounts.minute_requests[self._e]
        violated = closed[:, VIOLATED] + np.bincount(domain, current[VIOLATED], domains)
        arrived = traffic * world.cluster.tick_seconds
        record.violating[tick] = np.clip((violated - self._violated) / arrived, 0, 1)
        self._violated = violated
        record.cpu_use[tick] = sample[rows.CPU].sum() * MILLI / _ready_cpu(world, self._e)

    def _record_pods(self, world: World, tick: int) -> None:
        status, record = world.state.status[self._e], self.recording
        domain, domains = status[rows.DOMAIN], self._violated.size
        record.ready[tick] = np.bincount(domain, status[rows.READY], domains)
        record.starting[tick] = np.bincount(domain, status[rows.STARTING], domains)
        record.pending[tick] = np.bincount(domain, status[rows.PENDING], domains)
        bound = world.state.hidden[self._e, BOUND].astype(np.float64) * status[rows.CPU_REQUEST]
        record.held[tick] = np.bincount(domain, bound, domains) / _ready_cpu(world, self._e)
        waits = world.accounts.waits[self._e]
        # The accounts sum since the warm-up; a recording has single ticks.
        record.waits[tick] = waits - self._waits
        self._waits[:] = waits

    def _record_queue(self, world: World, tick: int) -> None:
        state, record = world.state, self.recording
        queue = state.queue[self._e, : state.env["queue_length"][self._e]]
        domain = state.status[self._e, rows.DOMAIN]
        seconds = (tick - queue["since"]) * float(world.cluster.tick_seconds)
        # `at`, because a domain may have several entries.
        np.maximum.at(record.waited_s[tick], domain[queue["app"]], seconds)
        # Pods of coordinated pools don't request nodes themselves.
        asks = (seconds < ASKING_S) & (queue["node_request"] != COORDINATED)
        asking = np.unique(queue["app"][asks])
        record.asking[tick] = np.bincount(domain[asking], minlength=self._violated.size)

    def _record_nodes(self, world: World, tick: int) -> None:
        state, record = world.state, self.recording
        pools = state.pool.shape[1]
        record.nodes_ready[tick] = state.pool["ready"][self._e]
        record.nodes_booting[tick] = state.pool["booting"][self._e]
        launches = state.launch[self._e, : state.env["launch_length"][self._e]]
        record.nodes_asked[tick] = np.bincount(launches["pool"], launches["count"], pools)


def _ready_cpu(world: World, e: int) -> float:
    nodes = world.state.pool["ready"][e]
    return max(1.0, float(nodes @ world.given.rules.pools["cpu"]))


def _empty(ticks: int, world: World) -> Recording:
    domains, pools = (ticks, world.layout.domains), (ticks, world.layout.pools)
    return Recording(
        rps=np.zeros(domains),
        retries=np.zeros(domains),
        outside=np.zeros(domains),
        served=np.zeros(domains),
        errors=np.zeros(domains),
        p99_ms=np.zeros(domains),
        p99_over_target=np.zeros(domains),
        violating=np.zeros(domains),
        ready=np.zeros(domains, np.int32),
        starting=np.zeros(domains, np.int32),
        pending=np.zeros(domains, np.int32),
        asking=np.zeros(domains, np.int32),
        waited_s=np.zeros(domains),
        held=np.zeros(domains),
        waits=np.zeros((*domains, WAIT_BINS), np.int32),
        cpu_use=np.zeros(ticks),
        nodes_ready=np.zeros(pools, np.int32),
        nodes_booting=np.zeros(pools, np.int32),
        nodes_asked=np.zeros(pools, np.int32),
    )

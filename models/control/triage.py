"""Which apps to serve when a domain cannot carry the work of all of them.

As long as every app can keep its latency, scarcity is shared by load (`projection.py`). Below that,
sharing is the worst choice: every app is overloaded, all requests fail, and clients send them
again. So the apps that save the most requests per core are brought to a bearable utilisation, and
the others wait for nodes. Nothing is taken from a running app. Pods that wait for a node are no
running ones: the scheduler would bind those of every app in turn, and none would have enough.
"""

import math
from typing import Final, NamedTuple

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F32, F64, I32
from models.cluster.plan import Reason
from models.control.projection import MEBIBYTES, MILLICORES, RESOURCES, exceeds, sum_held
from models.control.report import BEARABLE
from models.control.safety import Apps, Wishes
from models.jit import kernel

_LEAST_WORTH: Final = 1e-9
_MOST_WORTH: Final = 1e12
"""Requests per second and millicore; the worth of every app is kept between these."""
_STEPS: Final = 30
"""Bisection steps on a logarithmic scale."""
_EQUAL: Final = 1.0 - 1e-7
"""Factor on a worth down to which another counts as equal; the bisection is finer."""
_CROWDED: Final = 0.25
"""Waiting pods over placed ones, in cores, above which those of apps that are not served leave the
queue. Below it room comes within a minute, from others that give way as well as from new nodes, and
pods that wait have it at once."""
_MOST_PODS: Final = np.float32(1e9)
"""An absurd load must not overflow an integer."""
# Kernels take integers, not enumerations.
_OUT, _BUDGET = int(Reason.SCALE_OUT), int(Reason.HOLD_BUDGET)
_YIELD = int(Reason.YIELD)


class Triage(NamedTuple):
    """Scratch of `serve_most_requests`. D domains."""

    held: F64
    """[2, D] at the threshold that is tried."""
    low: F64
    """[D] worth from which more would be served than fits."""
    high: F64
    """[D] worth from which apps are served; 0 where nothing is scarce."""
    following: F64
    """[D] the highest worth of the apps that are not served."""
    running: I32
    """[A] replicas that do not wait for a node."""


class Candidates(NamedTuple):
    """What decides who is served, [A] each unless said otherwise."""

    wanted: I32
    """Replicas."""
    current: I32
    """Replicas that do not wait for a node."""
    most: I32
    """Declared maximum of replicas."""
    load: F32
    """Pods that the traffic would use fully."""
    rps: F32
    size: I32
    """[2, A] what a pod holds."""
    domain: I32


def triage_scratch(domains: int, apps: int) -> Triage:
    """Zeros; `serve_most_requests` writes before it reads."""
    return Triage(
        held=np.zeros((RESOURCES, domains)),
        low=np.zeros(domains),
        high=np.zeros(domains),
        following=np.zeros(domains),
        running=np.zeros(apps, np.int32),
    )


@kernel
def serve_most_requests(
    wishes: Wishes,
    apps: Apps,
    rps: F32,
    most: I32,
    size: I32,
    limit: F64,
    in_force: bool,
    scratch: Triage,
) -> None:
    """Cut the increases of domains whose `limit` [2, D] is below what their apps need to survive.

    Where many pods wait for nodes, they leave the queue to those of apps that are served, if the
    budget is `in_force`. Other domains stay as they are: the projection cuts them, if at all.
    """
    status = apps.status
    _count_running(apps, size[MILLICORES], in_force, scratch)
    given = Candidates(
        wishes.replicas, scratch.running, most, apps.load, rps, size, status[rows.DOMAIN]
    )
    sum_held(given.wanted, size, given.domain, scratch.held)
    # Most ticks end here. Then the bisection's interval is empty: every app is served.
    if not _open_intervals(limit, 0.0, scratch):
        return
    _hold_served(given, scratch)
    if not _open_intervals(limit, _MOST_WORTH, scratch):
        return
    for _ in range(_STEPS):
        _hold_served(given, scratch)
        for d in range(limit.shape[1]):
            middle = math.sqrt(scratch.low[d] * scratch.high[d])
            if exceeds(scratch.held, limit, d):
                scratch.low[d] = middle
            elif scratch.high[d] > 0.0:
                scratch.high[d] = middle
    _find_following(given, scratch)
    _serve(given, status[rows.REPLICAS], wishes.reason, limit, scratch)


@kernel
def _count_running(apps: Apps, millicores: I32, in_force: bool, scratch: Triage) -> None:
    """Replicas that nothing is taken from: all, or in crowded domains those that do not wait."""
    replicas, pending = apps.status[rows.REPLICAS], apps.status[rows.PENDING]
    domain, waiting, placed = apps.status[rows.DOMAIN], scratch.low, scratch.high
    for d in range(waiting.size):
        waiting[d] = placed[d] = 0.0
    for app in range(replicas.size):
        d, size = domain[app], np.float64(millicores[app])
        waiting[d] += np.float64(max(0, pending[app])) * size
        placed[d] += np.float64(max(0, replicas[app] - max(0, pending[app]))) * size
    for app in range(replicas.size):
        d = domain[app]
        crowded = in_force & (waiting[d] > _CROWDED * placed[d])
        # Missing samples never lower (invariant 4), and neither does an expired budget (3).
        leaves = crowded & (apps.missing[app] == 0.0)
        scratch.running[app] = max(0, replicas[app] - (max(0, pending[app]) if leaves else 0))


@kernel
def _open_intervals(limit: F64, high: float, scratch: Triage) -> bool:
    """Whether any domain exceeds its limit; those that do search below `high`."""
    any_exceeds = False
    for d in range(limit.shape[1]):
        scarce = exceeds(scratch.held, limit, d)
        scratch.low[d] = _LEAST_WORTH if scarce and high > 0.0 else 0.0
        scratch.high[d] = high if scarce else 0.0
        any_exceeds |= scarce
    return any_exceeds


@kernel
def _survivable(given: Candidates, app: int) -> int:
    """Replicas at which an app keeps its latency, between what it has and what it wants."""
    enough = math.ceil(min(_MOST_PODS, given.load[app] / BEARABLE))
    return int(min(given.wanted[app], max(given.current[app], min(enough, given.most[app]))))


@kernel
def _worth(given: Candidates, app: int, more: int) -> float:
    """Requests per second and millicore that `more` pods of an app save."""
    millicores = np.float64(more) * max(1, given.size[MILLICORES, app])
    return float(min(max(given.rps[app] / millicores, 2.0 * _LEAST_WORTH), 0.5 * _MOST_WORTH))


@kernel
def _hold_served(given: Candidates, scratch: Triage) -> None:
    """What domains would hold if apps above the middle of their domain's interval were served."""
    held = scratch.held
    for d in range(held.shape[1]):
        held[MILLICORES, d] = held[MEBIBYTES, d] = 0.0
    for app in range(given.wanted.size):
        d = given.domain[app]
        replicas = min(given.wanted[app], given.current[app])
        enough = _survivable(given, app)
        if enough > replicas:
            middle = math.sqrt(scratch.low[d] * scratch.high[d])
            replicas = enough if _worth(given, app, enough - replicas) >= middle else replicas
        held[MILLICORES, d] += np.float64(replicas) * given.size[MILLICORES, app]
        held[MEBIBYTES, d] += np.float64(replicas) * given.size[MEBIBYTES, app]


@kernel
def _find_following(given: Candidates, scratch: Triage) -> None:
    """Hold what is served at the threshold, and find the worth of the next apps."""
    for d in range(scratch.high.size):
        # The interval becomes a point, so that its middle is the threshold.
        scratch.low[d], scratch.following[d] = scratch.high[d], 0.0
    _hold_served(given, scratch)
    for app in range(given.wanted.size):
        d, more = given.domain[app], _survivable(given, app) - given.current[app]
        if more > 0:
            worth = _worth(given, app, more)
            if worth < scratch.high[d]:
                scratch.following[d] = max(scratch.following[d], worth)


@kernel
def _serve(given: Candidates, replicas: I32, reason: I32, limit: F64, scratch: Triage) -> None:
    """Raise the apps above the threshold, and the next ones as far as there is room.

    Without the rest a large app that needs many pods would never start. Several apps share it if
    they are worth the same, one after the other.
    """
    wanted, current, held = given.wanted, given.current, scratch.held
    for app in range(wanted.size):
        d = given.domain[app]
        if scratch.high[d] == 0.0 or wanted[app] <= current[app]:
            continue
        more = _survivable(given, app) - current[app]
        worth = _worth(given, app, max(1, more))
        if worth < scratch.high[d]:
            next_in_turn = worth >= scratch.following[d] * _EQUAL
            more = _take_room(more, given.size[:, app], limit, held, d) if next_in_turn else 0
        wanted[app] = current[app] + more
        if wanted[app] < replicas[app]:
            reason[app] = _YIELD
        elif wanted[app] == replicas[app] and reason[app] == _OUT:
            reason[app] = _BUDGET


@kernel
def _take_room(more: int, size: I32, limit: F64, held: F64, d: int) -> int:
    """How many of `more` pods fit beside what the domain holds; adds them to it."""
    for resource in range(RESOURCES):
        room = max(0.0, limit[resource, d] - held[resource, d])
        more = min(more, int(room / max(1, size[resource])))
    for resource in range(RESOURCES):
        held[resource, d] += np.float64(more) * size[resource]
    return more

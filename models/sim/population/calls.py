"""The call graph: tiers call the next tier and the innermost one, domains call domains.

Edges only lead inwards (to a later tier, or to a domain later in call order), so the graph has no
cycles. Calls are at most 60 % of an app's traffic.
"""

from graphlib import CycleError, TopologicalSorter
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I32, Mask
from models.cluster.description import Call
from models.inputs.errors import InputError
from models.sim.apps import GUARD_FAIL_OPEN, GUARD_NONE, GUARD_QUEUE, Calls
from models.sim.config.physics import Guard, SimCluster
from models.sim.population.fitted import Fitted, from_quantiles, generator, pick
from models.sim.population.structure import Structure

_LAST_CALLING_TIER: Final = 2
"""Deeper tiers make no calls, so a path inside a domain has at most four apps."""
_MOST_INFLOW: Final = 0.6
"""Calls are at most this share of an app's traffic."""
_MOST_PER_REQUEST: Final = 2.0
_LEAST_PER_REQUEST: Final = 0.001
_MOST_FAN_OUT: Final = 5
_CALLING_SHARE: Final = 0.4
"""Share of the apps in a domain's middle tiers that call another domain."""
_GUARDS: Final[dict[Guard, int]] = {
    "none": GUARD_NONE,
    "fail-open": GUARD_FAIL_OPEN,
    "queue": GUARD_QUEUE,
}


class _Edges(NamedTuple):
    caller: I32
    callee: I32
    rate: F64
    guard: I32


def reachable(calls: Calls, n_apps: int, sources: Mask) -> Mask:
    """Apps on a call path from the sources, sources included; the others are bystanders."""
    reached = np.zeros(n_apps, dtype=np.bool_) | sources
    # One pass is enough: edges into an app precede the edges out of it.
    for caller, callee in zip(calls.caller.tolist(), calls.callee.tolist(), strict=True):
        reached[callee] |= reached[caller]
    return reached


def inflow(calls: Calls, mean_rps: F64) -> F64:
    """Mean requests per second that reach each app by calls."""
    carried = mean_rps[calls.caller] * calls.per_request
    return np.bincount(calls.callee, carried, len(mean_rps)).astype(np.float64)


def draw_calls(cluster: SimCluster, fitted: Fitted, structure: Structure, mean_rps: F64) -> Calls:
    """Edges inside domains by the fitted structure, and between domains by the cluster's calls."""
    # Kernels walk the edges in one pass, so domains must not call each other in a circle.
    rank = _call_order(cluster)
    edges = [_inside(cluster, fitted, structure, mean_rps)]
    arriving = _inflow_of(edges, mean_rps)
    # One after the other, because each uses up room that callees have left.
    for number, call in enumerate(cluster.calls):
        edges.append(_between(cluster, structure, mean_rps, arriving, (number, call)))
        arriving = _inflow_of(edges, mean_rps)
    return _sorted(_join_parts(edges), structure, rank)


def _call_order(cluster: SimCluster) -> I32:
    """Position of each domain in call order, callers first."""
    callers: dict[str, set[str]] = {name: set() for name in cluster.domain_names}
    for call in cluster.calls:
        callers[call.callee].add(call.caller)
    try:
        order = list(TopologicalSorter(callers).static_order())
    except CycleError as error:
        cycle = " -> ".join(error.args[1])
        raise InputError(f"calls: expected no cycle between domains, got {cycle}") from None
    return np.array([order.index(name) for name in cluster.domain_names], np.int32)


def _inflow_of(edges: list[_Edges], mean_rps: F64) -> F64:
    total = np.zeros(len(mean_rps))
    for part in edges:
        total += np.bincount(part.callee, mean_rps[part.caller] * part.rate, len(mean_rps))
    return total


def _inside(cluster: SimCluster, fitted: Fitted, structure: Structure, mean_rps: F64) -> _Edges:
    """Calls to the next tier, and to the innermost one, which holds the data."""
    rng = generator(cluster.physics.population.seed, "calls")
    fan_out = np.array(fitted.calls.fan_out_share)
    callees = 1 + rng.choice(len(fan_out), size=len(mean_rps), p=fan_out / fan_out.sum())
    callees = np.minimum(callees, _MOST_FAN_OUT)
    # Leaves are a share of all edges, so there are this many for each inner edge.
    leaves = rng.poisson(callees * fitted.calls.leaf_share / (1 - fitted.calls.leaf_share))
    calling = structure.tier <= _LAST_CALLING_TIER
    ahead = _slots(structure, np.where(calling, callees, 0), structure.tier + 1)
    inmost = _slots(structure, np.where(calling, leaves, 0), structure.tiers - 1)
    slots = np.concatenate([ahead, inmost])
    # A caller may draw a callee twice; one edge is left.
    pairs = np.unique(_choose_callees(rng, structure, slots, mean_rps), axis=0)
    rate = from_quantiles(rng, fitted.calls.calls_per_request, len(pairs))
    caller, callee = pairs[:, 0], pairs[:, 1]
    rate = np.minimum(rate, _MOST_PER_REQUEST)
    room = _MOST_INFLOW * mean_rps
    # Guard 0: inside a domain a failed call fails its caller.
    return _Edges(caller, callee, _limit_inflow(room, caller, callee, rate, mean_rps), 0 * caller)


def _slots(structure: Structure, count: I32, tier: I32) -> I32:
    """[slots, 2] of (caller, tier to call), one row per edge to draw."""
    caller = np.repeat(np.arange(len(count)), np.where(tier > structure.tier, count, 0))
    return np.stack([caller, tier[caller]], axis=1).astype(np.int32)


def _choose_callees(
    rng: np.random.Generator, structure: Structure, slots: I32, mean_rps: F64
) -> I32:
    """Choose a callee for each slot, with weights that grow as the square root of traffic.

    Open apps call only open ones, so nothing behind them becomes reachable for other domains.
    Apps with a latency target don't call apps without one.
    """
    caller, tier = slots[:, 0], slots[:, 1]
    # 0 closed, 1 best-effort, 2 open: `structure` opens no best-effort app.
    kind = 2 * structure.open + structure.best_effort
    pairs = [np.zeros((0, 2), dtype=np.int32)]
    groups = np.stack([structure.domain[caller], tier, kind[caller]], axis=1)
    for domain, to_tier, callers_kind in np.unique(groups, axis=0).tolist():
        in_group = (groups == (domain, to_tier, callers_kind)).all(axis=1)
        suited = (structure.domain == domain) & (structure.tier == to_tier)
        suited &= structure.open if callers_kind == 2 else np.True_
        suited &= np.True_ if callers_kind == 1 else ~structure.best_effort
        chosen = _by_weight(rng, _indices(suited), np.sqrt(mean_rps), int(in_group.sum()))
        pairs.append(np.stack([caller[in_group][: len(chosen)], chosen], axis=1))
    return np.concatenate(pairs).astype(np.int32)


def _indices(mask: Mask) -> I32:
    return np.flatnonzero(mask).astype(np.int32)


def _by_weight(rng: np.random.Generator, options: I32, weight: F64, count: int) -> I32:
    """Draw `count` of the options with replacement; none when there are no options.

    Evenly spaced along the weights, in random order, so that each large option gets callers.
    """
    if not len(options) or weight[options].sum() <= 0:
        return np.zeros(0, dtype=np.int32)
    edges = np.cumsum(weight[options])
    at = (rng.permutation(count) + rng.random()) / count
    row = np.searchsorted(edges, at * edges[-1], side="right")
    # Rounding may put the last draw beyond the last edge.
    return np.asarray(options[np.minimum(row, len(options) - 1)], dtype=np.int32)


def _limit_inflow(room: F64, caller: I32, callee: I32, rate: F64, mean_rps: F64) -> F64:
    """Lower the rates where a callee would get more calls than it has room for."""
    load = np.bincount(callee, mean_rps[caller] * rate, len(mean_rps))
    fit = np.minimum(1.0, np.maximum(room, 0) / np.maximum(load, 1e-12))
    return np.asarray(rate * fit[callee], dtype=np.float64)


def _between(
    cluster: SimCluster,
    structure: Structure,
    mean_rps: F64,
    arriving: F64,
    numbered: tuple[int, Call],
) -> _Edges:
    """Calls of one domain to another: from some of its middle tiers to the open first tier."""
    number, call = numbered
    rng = generator(cluster.physics.population.seed, f"calls/{number}")
    names = cluster.domain_names
    own = structure.domain == names.index(call.caller)
    room = _MOST_INFLOW * mean_rps - arriving
    callers = _callers(rng, structure, own, mean_rps)
    callees = structure.inline & (structure.domain == names.index(call.callee))
    first = callees & (structure.tier == 0)
    options = _indices(first if first.any() else callees)
    slots = np.repeat(callers, rng.integers(1, 4, len(callers)))
    chosen = _by_weight(rng, options, np.maximum(room, 0), len(slots))
    pairs = np.unique(np.stack([slots[: len(chosen)], chosen], axis=1), axis=0)
    caller, callee = pairs[:, 0], pairs[:, 1]
    # A request of the domain is one that enters it; calls inside the domain are part of it.
    entering = float((mean_rps - arriving)[own].sum())
    rate = rng.lognormal(0, 0.3, len(pairs))
    # Lowering rates for callees without room shifts calls to the others; repeat until it settles.
    for _ in range(8):
        carried = max(float((mean_rps[caller] * rate).sum()), 1e-12)
        rate = np.minimum(rate * call.calls_per_request * entering / carried, _MOST_PER_REQUEST)
        rate = _limit_inflow(room, caller, callee, rate, mean_rps)
    guard = _GUARDS[cluster.guard_of(call)]
    return _Edges(caller, callee, rate, np.full(len(pairs), guard, np.int32))


def _callers(rng: np.random.Generator, structure: Structure, own: Mask, mean_rps: F64) -> I32:
    """Apps that call other domains: of the middle tiers if there are any, weighted by traffic."""
    middle = (
        own & (structure.tier > 0) & (structure.tier < structure.tiers - 1) & ~structure.best_effort
    )
    pool = _indices(middle if middle.any() else own)
    chosen = pick(rng, mean_rps[pool], max(1, round(_CALLING_SHARE * len(pool))))
    return np.asarray(pool[chosen], dtype=np.int32)


def _join_parts(edges: list[_Edges]) -> _Edges:
    """All parts, without edges whose rate is nearly zero because the callee had no room."""
    real = [part.rate >= _LEAST_PER_REQUEST for part in edges]
    columns = zip(*edges, strict=True)
    return _Edges(*(np.concatenate([a[b] for a, b in zip(c, real, strict=True)]) for c in columns))


def _sorted(edges: _Edges, structure: Structure, rank: I32) -> Calls:
    """Callers in call order: by their domain's rank, then by tier."""
    caller = edges.caller
    keys = (edges.callee, caller, structure.tier[caller], rank[structure.domain[caller]])
    # `lexsort` sorts by its last key first.
    order = np.lexsort(keys)
    crosses = structure.domain[edges.caller] != structure.domain[edges.callee]
    return Calls(
        caller=edges.caller[order].astype(np.int32),
        callee=edges.callee[order].astype(np.int32),
        per_request=edges.rate[order].astype(np.float32),
        guard=edges.guard[order].astype(np.int8),
        cross_domain=crosses[order].astype(np.int8),
    )

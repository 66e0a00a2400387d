"""Budgets: how the capacity of the pools is divided between the domains.

A domain's own pools are its own; shared ones go to the highest priority first. What is left after
every claim goes to the domains whose need weighs most. A reserve belongs to no domain: overdrafts
come out of it. Shares and reserve sum to exactly 1.

A `Directive` is what the Commander sends to the Soldiers, a `CommanderDecision` all it decides in
a minute: the directive, and the nodes it requests of the pools.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I32, MIB_PER_GIB, MILLI
from models.jit import kernel

PRIORITIES: Final = 4
"""P0 to P3."""
OVERDRAFT: Final = 0.1
"""Share beyond its budget that a Soldier may draw, as far as the reserve goes. Fixed by the
definition of an overdraft (docs/concepts/glossary.md), so it is not tuned."""
# The default of `priority_weights` in a cluster file. A file with other weights changes the
# objective, but not how the rest is divided.
_SLACK_WEIGHT: Final = np.array([10.0, 4.0, 1.0, 0.3])
"""How the rest is divided: in the proportion in which the objective weighs a violation."""
_LEAST: Final = 1e-9
"""Added to divisors: fewer cores than this are none."""
_NEVER: Final = -1
"""Epoch and validity before the first budget: below every real epoch and tick."""


class Pools(NamedTuple):
    """The capacity to divide, and which domain may use it. E environments, P pools, D domains."""

    cores: F64
    """[E, P] of the nodes that are ready."""
    memory: F64
    """[E, P] GiB of the same nodes."""
    choices: I32
    """[D, choices] pools of each domain, preferred first, -1 where there are fewer."""


class Budget(NamedTuple):
    """What the domains may hold until the next budget. E environments, D domains, P pools."""

    epoch: I32
    """[E] rises with each budget; consumers ignore an older one."""
    valid_until_tick: I32
    """[E] last tick at which it may be used; then it blocks increases above the floor."""
    share: F64
    """[E, D] of all cores."""
    reserve: F64
    """[E] of all cores; shares and reserve sum to 1."""
    pool_cores: F64
    """[E, D, P]."""
    cores: F64
    """[E, D] sum over the pools."""
    memory: F64
    """[E, D] GiB that go with the cores."""
    overdraft: F64
    """[E, D] cores beyond the budget that the reserve covers."""
    floor: F64
    """[E, D] cores that an expired budget still allows, and the memory that goes with them."""
    urgency: F64
    """[E, D] 0 to 1: how soon the domain needs what it lacks."""
    headroom: F64
    """[E, D] share to add to every need, as far as cores are spare."""
    insured: F64
    """[E, D] the part of the headroom that carries the loss of a zone, whatever is forecast."""


class Directive(NamedTuple):
    """What the Soldiers follow until the next directive. E environments, D domains.

    Every field is per domain or the same for all, so each domain can receive its own part.
    """

    budget: Budget
    growth: F64
    """[E, D] forecast over now, within the time that pods take to start. At least 1, and 1 for all
    but the highest priority: no app gives way to another one's announcement."""
    release: F64
    """[E, D] cores that each domain has to release, because other apps cannot do without."""


class CommanderDecision(NamedTuple):
    """What the Commander decides in a minute. P pools."""

    directive: Directive
    nodes: I32
    """[E, P, 4] nodes to request, by priority of the need."""
    keep: I32
    """[E, P] nodes to keep even when idle: they wait for coming load."""
    insured: I32
    """[E, P] of the nodes to keep, those that only carry the loss of a zone."""
    spend_left: F64
    """[E] money per hour between the spend cap and what all nodes cost, these ones included."""


class Claims(NamedTuple):
    """Cores that each domain would hold, [E, D] each, from what it must have to what it likes."""

    floor: F64
    """Up to it, the essential need is served before any other claim. The rest of it is lent."""
    essential: F64
    """Carries present and imminent work at the highest bearable utilisation."""
    kept: F64
    """The same, or what its pods on nodes are sized for: pods don't move for another's comfort."""
    comfort: F64
    """What it is sized for: with room for unannounced load."""
    held: F64
    """What it holds now, pending pods included."""


def no_directive(environments: int, domains: int, pools: int) -> Directive:
    """Before the first one: it has expired and has no floor, so nothing may grow."""
    nothing = np.zeros((environments, domains))
    never = np.full(environments, _NEVER, np.int32)
    budget = Budget(
        epoch=never,
        # Not the same array: writers fill both in place.
        valid_until_tick=never.copy(),
        share=nothing,
        reserve=np.ones(environments),
        pool_cores=np.zeros((environments, domains, pools)),
        cores=nothing,
        memory=nothing,
        overdraft=nothing,
        floor=nothing,
        urgency=nothing,
        headroom=nothing,
        insured=nothing,
    )
    return Directive(budget, np.ones((environments, domains)), nothing)


def no_decision(environments: int, domains: int, pools: int) -> CommanderDecision:
    """Before the first one: no nodes are requested, none are kept."""
    return CommanderDecision(
        no_directive(environments, domains, pools),
        np.zeros((environments, pools, 4), np.int32),
        np.zeros((environments, pools), np.int32),
        np.zeros((environments, pools), np.int32),
        np.zeros(environments),
    )


def divide(claims: Claims, priority: I32, pools: Pools, reserve: float) -> tuple[F64, F64]:
    """[E, D, P] cores per domain and pool, and [E] share of the reserve.

    Claim by claim, and within a claim the highest priority first. Holdings beyond every claim come
    last, so that no domain releases what no other claims. The rest goes by weight.
    """
    left = pools.cores - reserve_cores(pools, reserve)
    grant = np.zeros((*claims.held.shape, pools.cores.shape[1]))
    # Totals, not increments: each step raises a grant towards its total.
    steps = (
        np.minimum(claims.essential, claims.floor),
        claims.essential,
        claims.kept,
        claims.comfort,
        np.maximum(claims.comfort, claims.held),
    )
    weight = claims.comfort * _SLACK_WEIGHT[priority]
    _divide(np.stack(steps), weight, priority, pools.choices, left, grant)
    total = np.maximum(pools.cores.sum(axis=1), _LEAST)
    # The rest of everything, pools that no domain may use included: shares and reserve sum to
    # exactly 1 (invariant 1).
    return grant, 1.0 - grant.sum(axis=(1, 2)) / total


def shared_pools(choices: I32, pools: int) -> F64:
    """[P] 1 where more than one domain may use the pool."""
    users = (choices[:, :, None] == np.arange(pools)).any(axis=1).sum(axis=0)
    shared: F64 = (users > 1).astype(np.float64)
    return shared


def reserve_cores(pools: Pools, reserve: float) -> F64:
    """[E, P] cores of the reserve: a share of the whole, kept in shared pools.

    A reserve in a domain's own pool would help no other domain. At most half of the shared
    capacity is kept back, a limit that was chosen by hand.
    """
    shared = pools.cores * shared_pools(pools.choices, pools.cores.shape[1])
    wanted = reserve * pools.cores.sum(axis=1, keepdims=True)
    available = shared.sum(axis=1, keepdims=True)
    part: F64 = np.minimum(wanted, 0.5 * available) * shared / np.maximum(available, _LEAST)
    return part


@kernel
def _divide(steps: F64, weight: F64, priority: I32, choices: I32, left: F64, grant: F64) -> None:
    """Grant every environment its `steps` [S, E, D], then the rest."""
    for e in range(grant.shape[0]):
        # Steps outside, priorities inside: the essential work of P3 comes before the comfort of P0,
        # which costs more than it saves.
        for step in range(steps.shape[0]):
            for level in range(PRIORITIES):
                _grant(grant[e], left[e], steps[step, e], priority, level, choices)
        _spread_rest(grant[e], left[e], weight[e], choices)


@kernel
def _grant(grant: F64, left: F64, wanted: F64, priority: I32, level: int, choices: I32) -> None:
    """Raise domains of one priority towards what they want; a pool that is short is shared."""
    # Preferred pools first; what is still missing spills over into the next choice.
    for choice in range(choices.shape[1]):
        for pool in range(left.size):
            asked, takers = 0.0, 0
            for d in range(wanted.size):
                if priority[d] == level and choices[d, choice] == pool:
                    asked += _missing(grant[d], wanted[d])
                    takers += 1
            if takers == 0:
                continue
            part = min(1.0, left[pool] / max(asked, _LEAST))
            for d in range(wanted.size):
                if priority[d] == level and choices[d, choice] == pool:
                    grant[d, pool] += _missing(grant[d], wanted[d]) * part
            # Rounding could leave a little less than zero, which the next domain would lose.
            left[pool] = max(0.0, left[pool] - asked * part)


@kernel
def _missing(grant: F64, wanted: float) -> float:
    """What a domain lacks beside its grant [P]."""
    granted = 0.0
    for cores in grant:
        granted += cores
    return max(0.0, wanted - granted)


@kernel
def _spread_rest(grant: F64, left: F64, weight: F64, choices: I32) -> None:
    """Give capacity that no domain needs now to the domains that may use it, by weight."""
    for pool in range(left.size):
        total = 0.0
        for d in range(weight.size):
            # Without any claim the rest is shared equally, instead of 0 / 0.
            total += weight[d] + _LEAST if _may_use(choices[d], pool) else 0.0
        # Nobody takes what is left of a pool that no domain may use.
        for d in range(weight.size):
            if _may_use(choices[d], pool):
                grant[d, pool] += (weight[d] + _LEAST) / total * left[pool]


@kernel
def _may_use(choices: I32, pool: int) -> bool:
    found = False
    for choice in choices:
        found |= choice == pool
    return found


def overdrafts(cores: F64, reserve_cores: F64, priority: I32) -> F64:
    """[E, D] cores each domain may draw beyond its budget; in sum no more than the reserve."""
    # The highest priorities draw most, as they do of the rest.
    weight = cores * _SLACK_WEIGHT[priority] + _LEAST
    part = weight / weight.sum(axis=1, keepdims=True)
    drawn: F64 = np.minimum(OVERDRAFT * cores, part * reserve_cores[:, None])
    return drawn


def allowed(budget: Budget, tick: I32) -> F64:
    """[E, 2, D] millicores and MiB that each domain may hold: budget and overdraft.

    When the budget has expired, the floor. Memory is allowed in the proportion of the budget.
    """
    # Invariant 3: an expired budget blocks increases above the floor. Decreases are not its matter:
    # a domain that holds more than this keeps it.
    expired = (tick > budget.valid_until_tick)[:, None]
    cores = np.where(expired, budget.floor, budget.cores + budget.overdraft)
    memory = cores * (budget.memory / np.maximum(budget.cores, _LEAST))
    both = np.empty((cores.shape[0], 2, cores.shape[1]))
    both[:, 0], both[:, 1] = MILLI * cores, MIB_PER_GIB * memory
    return both

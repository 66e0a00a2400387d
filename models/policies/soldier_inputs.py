"""What the Soldiers' network sees: a domain, its members, and which steps are feasible.

A member is an app at risk or a tier group of the others; it decides for its apps alike. A domain
reads the same beside other domains and in a process of its own: it is summed in the order of its
apps. Neither a budget nor an earlier action is among the features, because policies that were
cloned with them copied the past; the budget enters as the limit of the projection, and as steps
that are not feasible.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F32, F64, I32, MILLI, Mask
from models.cluster.inventory import Inventory
from models.control.budget import Budget, Directive
from models.control.demand import AppSignals
from models.features.normalise import by_feature, empty_features, normalise
from models.features.table import APP, RISKY_ERRORS, RISKY_HEADROOM, RISKY_SATURATION
from models.policies.contract import GROUPS, MEMBERS, NO_STEP, STEPS, TOP
from models.policies.inputs import LEAST, MANY_APPS, MOST, PRIORITIES, finite

_SATURATION, _TREND, _ERRORS = APP.at("saturation"), APP.at("rps_trend"), APP.at("errors")
_HEADROOM, _MISSING, _RPS = APP.at("headroom"), APP.at("missing"), APP.at("rps")
_PENDING, _INTERACTIVE, _BATCH = APP.at("pending"), APP.at("interactive"), APP.at("batch")
_ERRORS_WEIGH: Final = 10.0
"""A tenth of failing requests counts as much as a pod that is full."""
_WORST: Final = 1e6
"""Risk that nothing exceeds."""


class SoldierInputs(NamedTuple):
    """Float32 and finite. E environments, D domains; columns as in `contract.py`."""

    domain: F32
    """[E, D, SOLDIER_DOMAIN_COLUMNS]."""
    member: F32
    """[E, D, MEMBERS, MEMBER_COLUMNS]; zeros where a member has no apps."""
    feasible: F32
    """[E, D, MEMBERS, STEPS]."""
    cores: F32
    """[E, D, MEMBERS]."""
    limit: F32
    """[E, D, 1]."""


class Apps(NamedTuple):
    """Every app with the member that decides for it. E environments, A apps."""

    member: I32
    """[E, A] domain x MEMBERS + place in the domain."""
    known: Mask
    """[E, A] declared, and with a sample of this tick."""


def soldier_inputs(
    status: I32, signals: AppSignals, directive: Directive, inventory: Inventory
) -> tuple[SoldierInputs, Apps]:
    """The inputs of one tick, and which member decides for each app."""
    domains = inventory.priority.size
    active = status[:, rows.ACTIVE] == 1
    apps = Apps(
        _members(status, signals.features, active, inventory),
        active & (signals.features[:, _MISSING] == 0),
    )
    held = status[:, rows.REPLICAS] * (status[:, rows.CPU_REQUEST] / MILLI) * active
    of_domain = np.maximum(_sums(held, status[:, rows.DOMAIN], domains), LEAST)
    cores = _sums(held, apps.member, domains * MEMBERS).reshape(-1, domains, MEMBERS)
    limit = np.nan_to_num(_limit(directive.budget), nan=0.0)
    shape = (*cores.shape[:2], 1)
    inputs = SoldierInputs(
        domain=_of_domains(status, signals, directive, inventory, of_domain),
        member=_of_members(status, signals, apps, held, of_domain, inventory),
        feasible=_feasible(status, apps, cores, limit - of_domain, inventory),
        cores=finite(cores / of_domain[..., None]),
        limit=finite(np.clip(limit / of_domain, 0.0, MOST)).reshape(shape),
    )
    return inputs, apps


def _members(status: I32, features: F32, active: Mask, inventory: Inventory) -> I32:
    """The apps most at risk are members of their own, in order; the others belong to groups."""
    domain = status[:, rows.DOMAIN]
    risk = np.nan_to_num(_risk(features), nan=0.0, posinf=_WORST, neginf=-_WORST)
    # A tier is a group, unless the domain has more tiers than there are groups.
    group = inventory.tier * GROUPS // np.maximum(inventory.tiers[domain], GROUPS)
    # An app keeps its tier when it moves to a domain with fewer.
    found = domain * MEMBERS + np.minimum(group, GROUPS - 1)
    for e in range(domain.shape[0]):
        # Stable: of equal risks the first app comes first, whatever is beside it.
        order = np.lexsort((-risk[e], domain[e], ~active[e]))
        order = order[: int(active[e].sum())]
        sorted_domain = domain[e, order]
        rank = np.arange(order.size) - np.searchsorted(sorted_domain, sorted_domain)
        top = order[rank < TOP]
        found[e, top] = domain[e, top] * MEMBERS + GROUPS + rank[rank < TOP]
    return found.astype(np.int32)


def _risk(features: F32) -> F64:
    """[E, A] how much an app needs a decision of its own."""
    full = features[:, _SATURATION].astype(np.float64)
    growing = 1.0 + np.maximum(features[:, _TREND], 0.0)
    late = 0.5 * (1.0 - features[:, _HEADROOM])
    risk: F64 = full * growing + _ERRORS_WEIGH * features[:, _ERRORS] + late + features[:, _PENDING]
    return risk


def _of_members(
    status: I32, signals: AppSignals, apps: Apps, held: F64, of_domain: F64, inventory: Inventory
) -> F32:
    """Means over the apps of each member, by the cores that they hold."""
    environments, count = held.shape
    domains = of_domain.shape[1]
    plain = empty_features(environments, 0, 0, 0, 0)
    features = normalise(plain._replace(app=by_feature(signals.features))).app
    domain = status[:, rows.DOMAIN]
    depth = inventory.tier / np.maximum(inventory.tiers[domain] - 1, 1)
    floor = inventory.min_replicas / np.maximum(status[:, rows.REPLICAS], 1)
    added = np.stack((_surge(signals), depth, floor), axis=2)
    columns = np.concatenate((finite(features), finite(added)), axis=2).astype(np.float64)
    # A millicore each, so that apps without pods have a mean, too.
    weight = (held + 1.0 / MILLI) * (status[:, rows.ACTIVE] == 1)
    width = columns.shape[2]
    at = apps.member[..., None] * width + np.arange(width)
    sums = _sums(
        (columns * weight[..., None]).reshape(environments, -1),
        at.reshape(environments, count * width),
        domains * MEMBERS * width,
    ).reshape(environments, domains, MEMBERS, width)
    total = _sums(weight, apps.member, domains * MEMBERS).reshape(sums.shape[:3])
    number = _sums((weight > 0).astype(np.float64), apps.member, domains * MEMBERS)
    number = number.reshape(sums.shape[:3])
    grouped = (np.arange(MEMBERS) < GROUPS) & (number > 0)
    more = (total / of_domain[..., None], np.sqrt(number / MANY_APPS), grouped)
    means = sums / np.maximum(total, LEAST)[..., None]
    return finite(np.concatenate((means, np.stack(more, axis=3)), axis=3))


def _of_domains(
    status: I32, signals: AppSignals, directive: Directive, inventory: Inventory, held: F64
) -> F32:
    domain, features = status[:, rows.DOMAIN], signals.features.astype(np.float64)
    domains = inventory.priority.size
    active = (status[:, rows.ACTIVE] == 1).astype(np.float64)

    def total(values: F64) -> F64:
        return _sums(np.nan_to_num(values * active, posinf=0.0, neginf=0.0), domain, domains)

    rps = features[:, _RPS]
    requests = np.maximum(total(rps), LEAST)
    apps = np.maximum(total(active), 1.0)
    declared = np.eye(PRIORITIES)[np.minimum(inventory.priority, PRIORITIES - 1)]
    size = status[:, rows.CPU_REQUEST] / MILLI
    load, usual = total(signals.load * size), np.maximum(total(signals.usual * size), LEAST)
    columns = (
        *(np.broadcast_to(column, held.shape) for column in declared.T),
        *(total(rps * features[:, at]) / requests for at in (_INTERACTIVE, _BATCH)),
        directive.budget.urgency,
        10.0 * directive.budget.headroom,
        directive.growth - 1.0,
        total(rps * features[:, _TREND]) / requests,
        load / usual - 1.0,
        np.sqrt(apps / MANY_APPS),
        total(at_risk(signals.features)) / apps,
        total(features[:, _MISSING]) / apps,
        load / held,
    )
    return finite(np.stack(columns, axis=2))


def _feasible(status: I32, apps: Apps, cores: F64, room: F64, inventory: Inventory) -> F32:
    """Steps that the maxima, the minima, the budget and the guard of P0 leave.

    [E, D, MEMBERS, STEPS]. The step of a factor of 1 always is, and the only one of a member
    without samples. The budget lies within the spend cap, so a step that it has no room for is
    never taken, whatever the network makes of it.
    """
    shape, length = cores.shape, cores.shape[1] * MEMBERS

    def total(values: F64) -> F64:
        return _sums(values * apps.known, apps.member, length).reshape(shape)

    replicas = status[:, rows.REPLICAS].astype(np.float64)
    known = total(np.ones(replicas.shape)) > 0
    least, most = (total(one.astype(np.float64) * np.ones_like(replicas))
                   for one in (inventory.min_replicas, inventory.max_replicas))  # fmt: skip
    pods = total(replicas)
    highest = (inventory.priority == inventory.priority.min())[:, None]
    found = np.zeros((*shape, len(STEPS)), np.float32)
    for step, factor in enumerate(STEPS):
        if factor > 1.0:
            fits = (cores * (factor - 1.0) <= room[..., None]) & (pods < most)
        else:
            fits = (pods > least) & ~highest
        found[..., step] = known & (fits | (step == NO_STEP))
    found[..., NO_STEP] = 1.0
    return found


def at_risk(features: F32) -> F64:
    """[E, A] 1 where an app is at risk of missing its SLO, by its last valid sample."""
    risky = features[:, _HEADROOM] < RISKY_HEADROOM
    risky = risky | (features[:, _ERRORS] > RISKY_ERRORS)
    found: F64 = (risky | (features[:, _SATURATION] > RISKY_SATURATION)).astype(np.float64)
    return found


def _limit(budget: Budget) -> F64:
    """[E, D] cores: the budget, and a tenth more as far as the reserve covers it."""
    return budget.cores + budget.overdraft


def _surge(signals: AppSignals) -> F64:
    surge: F64 = signals.load / np.maximum(signals.usual, LEAST) - 1.0
    return surge


def _sums(values: F64, at: I32, length: int) -> F64:
    """[E, length] of [E, N], in the order of N: alike whatever other sums stand beside."""
    return np.stack(
        [np.bincount(where, one, length) for where, one in zip(at, values, strict=True)]
    )

"""What the networks of Commander and Soldiers get and give: names, shapes, units and ranges.

Export, serving, training and the registry read this file. Axes: `rows` any number of decisions,
`domains` and `pools` any number of them, so that one network serves every cluster. A Soldier's row
is one domain, and its members are fixed in number: the apps most at risk one by one, the others by
tier group, so that a domain of 1,000 apps has as many outputs as one of 20. Inputs are
float32 and normalised as `inputs.py` says. Outputs are what the policy moves, in their units; the
guards in `outputs.py` apply after the network.
"""

from typing import Final, NamedTuple

from models.features.table import APP
from models.forecaster.port import HORIZONS_MIN

VERSION: Final = 2
"""Rises with every change of the meaning of an input or output; other versions are refused."""


class Tensor(NamedTuple):
    """One input or output."""

    name: str
    shape: tuple[str | int, ...]
    """Numbers, or the names of axes of any length."""
    unit: str
    low: float
    high: float


DOMAIN_COLUMNS: Final = (
    "p0", "p1", "p2", "p3", "floor_share", "apps", "rps", "held_share", "work", "essential", "kept",
    "wanted", "pending", "distress", "memory", "at_risk", "forecast",
    *(f"{level}_{minutes}min" for minutes in HORIZONS_MIN for level in ("low", "mid", "high")),
)  # fmt: skip
"""Of the input `domain`; `inputs.py` says what each is."""
POOL_COLUMNS: Final = ("ready", "coming", "free_cpu", "free_memory", "quota_left", "price")
CLUSTER_COLUMNS: Final = ("free_cpu", "coming_cpu", "pending_cpu", "distress_cpu", "spend_rate")

HEADROOM_SPAN: Final = 1.25
"""Largest factor on pods and nodes per unit of work; the smallest is its inverse."""
URGENCY_SPAN: Final = 4.0
COMFORT_SPAN: Final = 1.5
SPARE_SPAN: Final = 3.0
MOST_WEIGHT: Final = 1.0
"""Of the growth at one horizon."""

INPUTS: Final = (
    Tensor("domain", ("rows", "domains", len(DOMAIN_COLUMNS)), "normalised", -5.0, 5.0),
    Tensor("pool", ("rows", "pools", len(POOL_COLUMNS)), "normalised", -5.0, 5.0),
    Tensor("cluster", ("rows", len(CLUSTER_COLUMNS)), "normalised", -5.0, 5.0),
    Tensor("calls", ("domains", "domains"), "inline calls per request of the row", 0.0, 5.0),
    Tensor("uses", ("domains", "pools"), "1 where the domain may use the pool", 0.0, 1.0),
)
_PER_DOMAIN: Final = ("rows", "domains")
_PER_HORIZON: Final = ("rows", "domains", len(HORIZONS_MIN))


def _factor(name: str, shape: tuple[str | int, ...], of: str, span: float) -> Tensor:
    return Tensor(name, shape, f"factor on {of}", 1.0 / span, span)


def _weight(name: str, of: str) -> Tensor:
    unit = f"weight of the growth at each horizon in what {of}"
    return Tensor(name, _PER_HORIZON, unit, -MOST_WEIGHT, MOST_WEIGHT)


OUTPUTS: Final = (
    _factor("headroom", _PER_DOMAIN, "1 + headroom", HEADROOM_SPAN),
    _factor("urgency", _PER_DOMAIN, "the urgency", URGENCY_SPAN),
    _factor("comfort", _PER_DOMAIN, "the comfort claim", COMFORT_SPAN),
    _weight("pods", "pods prepare for"),
    _weight("nodes", "nodes are requested for"),
    _factor("spare", ("rows", 1), "spare nodes", SPARE_SPAN),
)
"""A factor of 1 and a weight of 0 are the heuristic."""

GROUPS: Final = 5
"""Tier groups of a domain; where it has more tiers, neighbours share a group."""
TOP: Final = 20
"""Apps at risk that are decided about one by one."""
MEMBERS: Final = GROUPS + TOP
"""With two outputs each: 50 numbers per domain, whatever its size."""
STEPS: Final = (1 / 1.5, 1 / 1.2, 1.0, 1.2, 1.5)
"""Replica steps, as factors on the pods that an app needs: shares, because the apps of a group have
any size, and none so small that the dead bands would hide it."""
NO_STEP: Final = STEPS.index(1.0)
NEED_SPAN: Final = STEPS[-1]
CPU_SPAN: Final = 2.0
"""Largest factor on the first CPU request of an app. The smallest is 1: pods are never made smaller
than their owner has them (`models/control/safety.py`)."""

SOLDIER_DOMAIN_COLUMNS: Final = (
    "p0", "p1", "p2", "p3", "interactive", "batch", "urgency", "budget_headroom", "growth", "trend",
    "surge", "apps", "at_risk", "missing", "held_to_serve",
)  # fmt: skip
"""The embedding of a domain: its priority, the character of its traffic, its directive, and how it
is. `soldier_inputs.py` says what each is."""
MEMBER_COLUMNS: Final = (
    *APP.names, "surge", "tier", "at_minimum", "share", "apps", "grouped",
)  # fmt: skip
"""The features of an app, or their means over a group, then what `soldier_inputs.py` adds."""
SOLDIER_INPUTS: Final = (
    Tensor("domain", ("rows", len(SOLDIER_DOMAIN_COLUMNS)), "normalised", -5.0, 5.0),
    Tensor("member", ("rows", MEMBERS, len(MEMBER_COLUMNS)), "normalised", -5.0, 5.0),
    Tensor("feasible", ("rows", MEMBERS, len(STEPS)), "1 where the step may be taken", 0.0, 1.0),
    Tensor("cores", ("rows", MEMBERS), "share of the cores that the domain holds", 0.0, 1.0),
    Tensor("limit", ("rows", 1), "cores that it may hold over those that it holds", 0.0, 5.0),
)
_PER_MEMBER: Final = ("rows", MEMBERS)
SOLDIER_OUTPUTS: Final = (
    _factor("need", _PER_MEMBER, "the pods that each app of the member needs", NEED_SPAN),
    Tensor("cpu", _PER_MEMBER, "factor on the first CPU request of the apps", 1.0, CPU_SPAN),
)
"""What is left of steps and requests after the projection to the limit."""

COMMANDER_COLUMNS: Final = {
    "domain": DOMAIN_COLUMNS, "pool": POOL_COLUMNS, "cluster": CLUSTER_COLUMNS,
}  # fmt: skip
"""Names of the columns of the inputs that have some."""
SOLDIER_COLUMNS: Final = {"domain": SOLDIER_DOMAIN_COLUMNS, "member": MEMBER_COLUMNS}

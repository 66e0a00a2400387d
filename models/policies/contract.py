"""What the networks of Commander and Soldiers get and give: names, shapes, units and ranges.

Export, serving, training and the registry read this file. Axes: `rows` any number of decisions,
`domains` and `pools` any number of them, so that one network serves every cluster. A Soldier's row
is one app. Inputs are
float32 and normalised as `inputs.py` says. Outputs are what the policy moves, in their units; the
guards in `outputs.py` apply after the network.
"""

from typing import Final, NamedTuple

from models.features.table import APP
from models.forecaster.port import HORIZONS_MIN

VERSION: Final = 1
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

APP_COLUMNS: Final = (
    *APP.names, "surge", "p0", "p1", "p2", "p3", "urgency", "budget_headroom", "growth",
    "domain_trend", "tier",
)  # fmt: skip
"""Of the Soldiers' input `app`: the app's features, then what `inputs.py` adds."""
NEED_SPAN: Final = 1.5
SOLDIER_INPUTS: Final = (Tensor("app", ("rows", len(APP_COLUMNS)), "normalised", -5.0, 5.0),)
SOLDIER_OUTPUTS: Final = (_factor("need", ("rows", 1), "the pods that an app needs", NEED_SPAN),)

COLUMNS: Final = {
    "domain": DOMAIN_COLUMNS, "pool": POOL_COLUMNS, "cluster": CLUSTER_COLUMNS, "app": APP_COLUMNS
}  # fmt: skip
"""Names of the columns of the inputs that have some."""

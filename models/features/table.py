"""Every feature a controller sees: name, unit, normalisation and range, declared once.

Widths, indices, the normalisation and docs/reference/features.md are derived from the tuples
below. The encoder gives physical values in these units; `normalise` maps them to a policy's input.
"""

from typing import Final, Literal

import msgspec

How = Literal["linear", "root"]
AGES: Final = ("30s", "60s", "2min", "5min", "older")
"""Age buckets of pods in flight, by the bound they are below."""

# An app is at risk below this headroom, or above these errors or this saturation; chosen by hand.
# Here and not beside the kernels, so that `hirl explain` need not load their compiler.
RISKY_HEADROOM: Final = 0.2
RISKY_ERRORS: Final = 0.01
RISKY_SATURATION: Final = 0.9


class Feature(msgspec.Struct, frozen=True):
    """One column. Normalised: clip(value / scale), or clip(sqrt(value / scale)) for "root".

    The root separates values over four decades, as a logarithm would, but vectorises and gives
    the same bits on every machine.
    """

    name: str
    unit: str
    how: How
    scale: float
    low: float
    high: float
    meaning: str


class Level(msgspec.Struct, frozen=True):
    """The columns of one table of features, in order."""

    name: str
    about: str
    features: tuple[Feature, ...]

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.features)

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(feature.name for feature in self.features)

    def at(self, name: str) -> int:
        """Column of a feature."""
        return self.names.index(name)


def _share(name: str, meaning: str, unit: str = "share") -> Feature:
    return Feature(name, unit, "linear", 1, 0, 1, meaning)


def _ratio(name: str, meaning: str, unit: str = "ratio") -> Feature:
    # Up to 5, the end of the sort keys in `summary.py`: a wider range would make quantiles coarser.
    return Feature(name, unit, "linear", 1, 0, 5, meaning)


def _headroom(name: str, meaning: str) -> Feature:
    # Down to -5, a p99 of six times the target: the sort keys end there, too.
    return Feature(name, "ratio", "linear", 1, -5, 1, meaning)


def _trend(meaning: str) -> Feature:
    return Feature("rps_trend", "ratio", "linear", 1, -1, 5, meaning)


def _age(meaning: str) -> Feature:
    # At most 5 minutes, as where means are cut (`_OLDEST_S` in `sums.py`).
    return Feature("sample_age", "s", "linear", 60, 0, 5, meaning)


APP: Final = Level(
    "app",
    "One row per app. Measured values are those of the last valid sample, however old; an app that"
    " never had one reads as fully used and without headroom. Apps that are not declared are zero.",
    (
        _share("active", "1 when the app is declared and its domain is known", "flag"),
        Feature("rps", "1/s", "root", 10_000, 0, 5, "requests per second"),
        _trend("requests per second over their mean of about five minutes, minus 1"),
        _share("errors", "failing share of the requests"),
        _ratio("utilisation", "CPU used over requested by the measured pods"),
        _ratio("saturation", "utilisation over that at which its pods are full, `full_at`"),
        _share("full_at", "utilisation at which its pods are full: declared, learned", "ratio"),
        _share("doubt", "standard deviation of `full_at`, relative to it", "ratio"),
        _ratio("memory_use", "memory used over requested by the pods on nodes"),
        _headroom("headroom", "SLO headroom: 1 - p99 / target; 1 for best effort"),
        Feature("wanted", "pods", "root", 250, 0, 5, "replicas asked for"),
        _share("room", "replicas left to the declared maximum, over that maximum"),
        _ratio("ready", "ready pods over wanted"),
        _ratio("in_flight", "pods that start or have no node, over wanted"),
        _ratio("pending", "pods without a node over wanted"),
        _ratio("restarts", "container restarts of the last five minutes per ready pod"),
        _share("missing", "1 when this tick brought no valid sample", "flag"),
        _age("time since the last valid sample"),
        _share("interactive", "declared share of API and web requests: a user waits for them"),
        _share("batch", "declared share of batch requests: few of them are much work"),
    ),
)

_SUMMARY: Final = (
    Feature("apps", "apps", "root", 100, 0, 5, "apps declared"),
    Feature("rps", "1/s", "root", 1_000_000, 0, 5, "requests per second, sum"),
    _trend("sum of requests per second over the sum of their means, minus 1"),
    _share("errors", "failing share of all requests"),
    _ratio("utilisation", "CPU used over requested, sums of all apps"),
    _ratio("memory_use", "memory used over requested, sums of all apps"),
    _ratio("utilisation_p10", "10 % of the apps are below, unweighted"),
    _ratio("utilisation_p50", "median app"),
    _ratio("utilisation_p75", "75 % of the apps are below"),
    _ratio("utilisation_p90", "90 % of the apps are below"),
    _ratio("utilisation_max", "most used app"),
    _ratio("utilisation_variance", "between apps, unweighted", "ratio²"),
    _headroom("headroom", "mean SLO headroom, weighted by requests"),
    _headroom("headroom_min", "app with the least SLO headroom"),
    _headroom("headroom_p10", "10 % of the apps have less, unweighted"),
    _headroom("headroom_p25", "25 % of the apps have less"),
    _headroom("headroom_p50", "median app"),
    _headroom("headroom_p90", "90 % of the apps have less"),
    _ratio("headroom_variance", "between apps, unweighted", "ratio²"),
    _share(
        "at_risk", "apps with SLO headroom below 0.2, over 1 % errors or above 90 % of saturation"
    ),
    _ratio("restarts", "container restarts of the last five minutes per ready pod"),
    _ratio("ready", "ready pods over wanted"),
    *(
        _ratio(f"in_flight_{age}", f"pods in flight for less than {age}, over wanted")
        for age in AGES[:-1]
    ),
    _ratio("in_flight_older", "pods in flight for longer, over wanted"),
    _ratio("pending", "pods without a node over wanted"),
    _ratio("held_cpu", "CPU requests of bound and pending pods over the ready capacity", "share"),
    _ratio("held_memory", "memory requests of bound and pending pods over it", "share"),
    _share("missing", "apps without a valid sample this tick"),
    _age("mean time since the apps' last valid samples, each cut at 5 min"),
)

GROUP: Final = Level(
    "group",
    "One row per tier group, domain by domain. Quantiles and variances are over the apps that ever"
    " had a valid sample; where none had, it reads as fully used and without headroom.",
    _SUMMARY,
)

DOMAIN: Final = Level(
    "domain",
    "One row per domain: the columns of a tier group, its own ones, and then the call row: one"
    " column `calls` per domain of the cluster.",
    (
        *_SUMMARY,
        Feature("priority", "P", "linear", 3, 0, 1, "0 for P0 to 3 for P3"),
        _share("floor_share", "share up to which the essential need is served first"),
        _ratio(
            "latency_exposure",
            "part of the latency target that inline callees use: sum of calls x their p99 / target",
        ),
    ),
)

CALLS: Final = Feature(
    "calls", "1", "linear", 1, 0, 5, "inline calls to that domain per request of this one"
)

POOL: Final = Level(
    "pool",
    "One row per node pool.",
    (
        Feature("ready", "nodes", "root", 100, 0, 5, "ready nodes"),
        _ratio("coming", "nodes that boot or are asked for, over ready ones"),
        _share("free_cpu", "allocatable CPU of ready nodes that no pod requests"),
        _share("free_memory", "allocatable memory of ready nodes that no pod requests"),
        Feature("price", "money/h", "linear", 5, 0, 5, "of a node, in the pool's mix of markets"),
    ),
)

CLUSTER: Final = Level(
    "cluster",
    "One row per environment.",
    (
        _share("free_cpu", "reserve: free share of the allocatable CPU of all pools"),
        _share("free_memory", "reserve: free share of the allocatable memory of all pools"),
        _ratio("coming_cpu", "CPU of coming nodes over that of ready ones", "share"),
        _ratio("pending_cpu", "CPU requests of pods without a node over the ready CPU", "share"),
        _ratio("spend_rate", "what all nodes cost now over the spend cap", "share"),
        _headroom("spend_left", "1 - spent / spend cap, since the memory began"),
        _share("missing", "apps without a valid sample this tick"),
    ),
)

LEVELS: Final = (APP, GROUP, DOMAIN, POOL, CLUSTER)


def domain_columns(domains: int) -> tuple[Feature, ...]:
    """All columns of the domain level: the declared ones and the call row."""
    return (*DOMAIN.features, *(CALLS for _ in range(domains)))


def markdown() -> str:
    """The text of docs/reference/features.md."""
    lines = [
        "# What a controller sees",
        "",
        "Generated from `models/features/table.py` by `make docs`; do not edit.",
        "",
        "The encoder (`models/features/encode.py`) gives physical values in the units below;",
        "`normalise` maps each to clip(value / scale) or, for *root*, clip(sqrt(value / scale)).",
        "Every array has the environment first and the feature last.",
    ]
    for level in LEVELS:
        lines += ["", f"## {level.name}", "", level.about, ""]
        lines += ["| # | name | unit | normalised | range | meaning |", "|--:|---|---|---|---|---|"]
        lines += [_row(str(index), feature) for index, feature in enumerate(level.features)]
        if level is DOMAIN:
            lines.append(_row("...", CALLS))
    return "\n".join(lines) + "\n"


def _row(index: str, f: Feature) -> str:
    normalised = f"{f.how}, / {f.scale:,g}"
    cells = (index, f.name, f.unit, normalised, f"{f.low:g} to {f.high:g}", f.meaning)
    return f"| {' | '.join(cells)} |"

"""Bounds on what others announce, forecast or report: beyond them it is not believed.

One factor bounds them all. It is far above what traffic does, so it never binds in a healthy
cluster. What exceeds it is an error or an attack. It is held, not cut to the bound: a forecast that
is cut to 20 times the traffic still buys every node that a quota allows.

Sizes only: which ticks and times to believe is decided in `services/_kit/plausible.py`.
"""

from collections.abc import Sequence
from math import inf, isfinite, prod
from typing import Final, NamedTuple

CORES: Final = ("work", "essential", "kept", "wanted", "pending", "distress")
"""Sums that are bounded by what a domain holds."""
_MOST: Final = 1e9
"""Cores or GiB of a domain: more than any cluster has. Beyond it sums of all domains overflow, and
nobody could read the budgets of any."""


class Span(NamedTuple):
    """An announced event of a domain, in any unit of time."""

    start: float
    end: float
    factor: float


def factor_problem(new: Span, others: Sequence[Span], largest: float) -> str:
    """Why an announced factor is not believed; empty if it is.

    Overlapping events multiply, so many small factors are bounded like a large one.
    """
    beside = [one.factor for one in others if one.start < new.end and new.start < one.end]
    # Events that lower traffic do not make room for others: they may not take place.
    total = prod(max(1.0, factor) for factor in (new.factor, *beside))
    # The factor itself first: the maximum above hides a NaN.
    if new.factor <= largest and total <= largest:
        return ""
    together = f", {total:g} with overlapping events" if beside else ""
    return f"expected a factor of at most {largest:g}, got {new.factor:g}{together}"


def forecast_problem(
    rps: Sequence[Sequence[float]], peaks: Sequence[float], highest: float, largest: float
) -> str:
    """Why a forecast is not believed; empty if it is. Without a history there is no bound."""
    values = [value for row in rps for value in row]
    if not all(isfinite(value) and value >= 0 for value in (*values, *peaks)):
        return "a forecast without usable numbers"
    most = max(values, default=0.0)
    if highest <= 0 or most <= largest * highest:
        return ""
    return (
        f"a forecast of {most:,.0f} requests/s is more than {largest:g} times the highest seen, "
        f"{highest:,.0f}"
    )


def highest_seen(before: float, now: float, largest: float) -> float:
    """The highest traffic so far; one report raises it by the factor at most."""
    most = before * largest if before > 0 else inf
    return max(before, min(now, most)) if isfinite(now) else before


class Held(NamedTuple):
    """What a domain holds."""

    cores: float
    memory_gib: float


def sums_problem(sums: Sequence[float], held: Held, before: Held | None, largest: float) -> str:
    """Why the sums of a domain (CORES) are not believed; empty if they are.

    `before` is what it held by the last report.
    """
    most = max(*sums, *held)
    if most > _MOST:
        return f"a report of {most:.3g} cores or GiB"
    units = ("cores", "GiB of memory")
    for unit, now, last in zip(units, held, before or Held(0.0, 0.0), strict=True):
        # Without an earlier report, and for a domain without pods, there is no bound.
        if 0 < last < now / largest:
            return (
                f"{now:,.0f} {unit} held is more than {largest:g} times those of the last report, "
                f"{last:,.0f}"
            )
    for name, cores in zip(CORES, sums, strict=True):
        # A domain without pods may want any number of cores: its budget and the quota bound it.
        if held.cores > 0 and cores > largest * held.cores:
            return (
                f"{cores:,.0f} cores {name} is more than {largest:g} times what it holds, "
                f"{held.cores:,.0f}"
            )
    return ""

"""Which lists of an event belong together place by place; checked, cut and joined here only."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

import msgspec

from schemas.demand_forecast import DemandForecast
from schemas.domain_observed import DomainObserved
from schemas.fields import Event
from schemas.metrics_sampled import MetricsSampled
from schemas.scale_applied import ScaleApplied
from schemas.scale_planned import ScalePlanned

E = TypeVar("E", bound=Event)


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """Lists with a place for each entry of a leading list.

    A column is a list, or a dict or struct of lists.
    """

    leader: str = "apps"
    whole: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    """May be empty instead."""
    nested: tuple[tuple[str, int], ...] = ()
    """Lists so many levels down in a field."""
    once: tuple[str, ...] = ()
    """Fields about all places together: of several parts, only the first has them."""


MEASURED: Final = (
    "rps",
    "throughput",
    "errors",
    "latency_p50_s",
    "latency_p99_s",
    "cpu_cores",
    "memory_gib",
    "measured_pods",
)
"""What is measured of an app, by the columns of samples."""
PODS: Final = (
    "replicas",
    "cpu_request",
    "memory_request",
    "ready",
    "starting",
    "pending",
    "restarts",
)
"""What the API server answers about an app, by the columns of samples and frames."""
_BEFORE: Final = ("replicas_before", "cpu_request_before", "memory_request_before")

RULES: Final[dict[type[Event], tuple[Columns, ...]]] = {
    MetricsSampled: (
        Columns(
            whole=("request_mix",),
            optional=(
                "pods",
                *MEASURED,
                "io_bytes_per_s",
                "network_bytes_per_s",
                *PODS,
            ),
        ),
    ),
    DomainObserved: (
        Columns(
            whole=("pods", "measured", "features", "load", "usual"),
            once=("missing", "aggregates", "calls"),
        ),
    ),
    DemandForecast: (
        Columns(optional=("app_rps", "app_peak_rps")),
        Columns(
            leader="horizons_min",
            whole=("rps", "peak_rps"),
            nested=(("app_rps", 1), ("app_peak_rps", 1)),
        ),
        Columns(leader="quantiles", nested=(("rps", 1), ("app_rps", 2))),
    ),
    ScalePlanned: (
        Columns(
            whole=("replicas", "cpu_request", "memory_request", "reasons"),
            optional=("need", *_BEFORE),
            once=("sums",),
        ),
    ),
    ScaleApplied: (
        Columns(
            whole=(
                "outcomes",
                "reasons",
                "replicas",
                "cpu_request",
                "memory_request",
                "replicas_before",
            ),
            optional=_BEFORE[1:],
        ),
    ),
}


def misfit(event: Event) -> str:
    """What is wrong with the lengths of an event's columns; empty when nothing is."""
    for rule in RULES.get(type(event), ()):
        places = len(getattr(event, rule.leader))
        for name, column in _columns(event, rule):
            length = len(column)
            if length != places and (length or name not in rule.optional):
                return (
                    f"expected {places} places in `{name}`, one for each of `{rule.leader}`, "
                    f"got {length}"
                )
    return ""


def cut(event: E, start: int, stop: int) -> E:
    """The same event with some of its places; what is said once goes with the first place."""
    (rule,) = RULES[type(event)]
    changes = {
        name: _map(getattr(event, name), lambda column: column[start:stop]) for name in _names(rule)
    }
    if start > 0:
        changes |= {name: _default(event, name) for name in rule.once}
    return msgspec.structs.replace(event, **changes)


def concatenate(events: Sequence[E]) -> E:
    """The first event, with the places of all of them in order."""
    first = events[0]
    (rule,) = RULES[type(first)]
    changes = {name: _append([getattr(event, name) for event in events]) for name in _names(rule)}
    return msgspec.structs.replace(first, **changes)


def _names(rule: Columns) -> tuple[str, ...]:
    return (rule.leader, *rule.whole, *rule.optional)


def _columns(event: Event, rule: Columns) -> Iterator[tuple[str, Sequence[Any]]]:
    for name in rule.whole:
        yield from _lists(name, getattr(event, name))
    for name in rule.optional:
        yield name, getattr(event, name)
    for name, depth in rule.nested:
        yield from ((name, column) for column in _at_depth(getattr(event, name), depth))


def _lists(name: str, value: Any) -> Iterator[tuple[str, Sequence[Any]]]:
    if isinstance(value, list):
        yield name, value
    else:
        for inner, column in _items(value):
            yield f"{name}.{inner}", column


def _items(value: Any) -> Iterator[tuple[str, list[Any]]]:
    """The lists of a dict or a struct, by name."""
    if isinstance(value, dict):
        yield from value.items()
    else:
        yield from ((name, getattr(value, name)) for name in value.__struct_fields__)


def _at_depth(value: Sequence[Any], depth: int) -> Iterator[Sequence[Any]]:
    if depth == 0:
        yield value
    else:
        for inner in value:
            yield from _at_depth(inner, depth - 1)


def _map(value: Any, change: Any) -> Any:
    if isinstance(value, list):
        return change(value)
    changed = {name: change(column) for name, column in _items(value)}
    return changed if isinstance(value, dict) else type(value)(**changed)


def _append(values: Sequence[Any]) -> Any:
    first = values[0]
    if isinstance(first, list):
        return [place for value in values for place in value]
    # A name that only some of them have makes a column too short, which the check then reports.
    together: dict[str, list[Any]] = {}
    for value in values:
        for name, column in _items(value):
            together.setdefault(name, []).extend(column)
    return together if isinstance(first, dict) else type(first)(**together)


def _default(event: Event, name: str) -> Any:
    (field,) = (field for field in msgspec.structs.fields(event) if field.name == name)
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default

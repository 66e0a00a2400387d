"""Parallel lists of an event: which belong together, and how to check, slice and join them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

import msgspec

from schemas.demand_forecast import DemandForecast
from schemas.domain_observed import DomainObserved
from schemas.fields import Event
from schemas.metrics_sampled import MEASURED, PODS, MetricsSampled
from schemas.scale_applied import ScaleApplied
from schemas.scale_planned import ScalePlanned

E = TypeVar("E", bound=Event)


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """Columns with one entry per entry of a leading list.

    A column is a list, or a dict or struct of lists.
    """

    leader: str = "apps"
    repeats: bool = False
    """Whether an entry of the leading list may be there twice, as an app with a sample per pod."""
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    """Columns that may also be empty."""
    nested: tuple[tuple[str, int], ...] = ()
    """Field and nesting depth of lists inside lists."""
    once: tuple[str, ...] = ()
    """Fields about all entries together: only the first of several parts has them."""


_BEFORE: Final = ("replicas_before", "cpu_request_before", "memory_request_before")

# JSON Schema can't express that lists are equally long, so the codec checks it by these rules.
RULES: Final[dict[type[Event], tuple[Columns, ...]]] = {
    MetricsSampled: (
        Columns(
            repeats=True,
            required=("request_mix",),
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
            required=("pods", "measured", "features", "load_pods", "usual_load_pods"),
            once=("missing", "aggregates", "calls"),
        ),
    ),
    DemandForecast: (
        Columns(optional=("app_rps", "app_peak_rps")),
        Columns(
            leader="horizons_minutes",
            required=("rps", "peak_rps"),
            nested=(("app_rps", 1), ("app_peak_rps", 1)),
        ),
        Columns(leader="quantiles", nested=(("rps", 1), ("app_rps", 2))),
    ),
    ScalePlanned: (
        Columns(
            required=("replicas", "cpu_request", "memory_request", "reasons"),
            optional=("need", *_BEFORE),
            once=("sums",),
        ),
    ),
    ScaleApplied: (
        Columns(
            required=(
                "outcomes",
                "reasons",
                "replicas",
                "cpu_request",
                "memory_request",
                "replicas_before",
            ),
            optional=(*_BEFORE[1:], "orders"),
        ),
    ),
}


def problem_of(event: Event) -> str:
    """Describe the first column of the wrong length, or an entry twice; empty if all are right."""
    for rule in RULES.get(type(event), ()):
        leaders = getattr(event, rule.leader)
        expected = len(leaders)
        # Twice in a frame or a plan, an app would count twice in what its domain holds, and so in
        # the share of it that may be taken away.
        if not rule.repeats and len(set(leaders)) < expected:
            ((twice, _),) = Counter(leaders).most_common(1)
            return f"expected each entry of `{rule.leader}` once, got {twice!r:.80} again"
        for name, column in _columns(event, rule):
            length = len(column)
            if length != expected and (length or name not in rule.optional):
                return (
                    f"expected {expected} entries in `{name}`, one per entry of `{rule.leader}`, "
                    f"got {length}"
                )
    return ""


def cut(event: E, start: int, stop: int) -> E:
    """Slice all columns of an event; the fields of `once` go with its first entry."""
    # Only events with one leading list are split. DemandForecast has three and is small.
    (rule,) = RULES[type(event)]
    changes = {
        name: _map(getattr(event, name), lambda column: column[start:stop]) for name in _names(rule)
    }
    if start > 0:
        changes |= {name: _default(event, name) for name in rule.once}
    return msgspec.structs.replace(event, **changes)


def concatenate(events: Sequence[E]) -> E:
    """Join the columns of several events; other fields are those of the first event."""
    first = events[0]
    (rule,) = RULES[type(first)]
    changes = {name: _append([getattr(event, name) for event in events]) for name in _names(rule)}
    return msgspec.structs.replace(first, **changes)


def _names(rule: Columns) -> tuple[str, ...]:
    return (rule.leader, *rule.required, *rule.optional)


def _columns(event: Event, rule: Columns) -> Iterator[tuple[str, Sequence[Any]]]:
    for name in rule.required:
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
    """Name and list of each column of a dict or a struct."""
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
        return [entry for value in values for entry in value]
    # A key that only some events have yields a short column, which `problem_of` reports.
    together: dict[str, list[Any]] = {}
    for value in values:
        for name, column in _items(value):
            together.setdefault(name, []).extend(column)
    return together if isinstance(first, dict) else type(first)(**together)


def _default(event: Event, name: str) -> Any:
    (field,) = (field for field in msgspec.structs.fields(event) if field.name == name)
    # msgspec turns a mutable default such as [] into a factory.
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default

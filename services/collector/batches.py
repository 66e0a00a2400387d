"""Query results to samples of a tick; missing values are null, never zero."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from schemas.app_declared import AppDeclared
from schemas.metrics_sampled import PODS, MetricsSampled
from schemas.pool_observed import PoolObserved
from services._kit.ticks import spell
from services.collector.prometheus_api import Series, number
from services.collector.queries import POOL_EXTRAS, POOL_FIELDS, SAMPLES

Values = Mapping[tuple[str, str], float | None]
"""Numbers by domain and app; the domain is empty where the series has no such label."""
_LARGEST_COUNT: Final = 2**31 - 1
"""The schemas and the arrays of the models have 32 bits for a count."""
_COUNTS: Final = ("ready", "booting", "quota", "requested")


class Stamp(NamedTuple):
    """Common fields of the events of one tick."""

    tick: int
    time: str
    trace_id: str


def stamp_of(tick: int, tick_s: int, source: str) -> Stamp:
    """Ticks count from 1970; a tick queried again has the same trace."""
    moment = datetime.fromtimestamp(tick * tick_s, UTC)
    trace = blake2b(f"{source}/{tick}".encode(), digest_size=16).hexdigest()
    return Stamp(tick, spell(moment), trace)


def numbers_of(
    answer: Sequence[Series],
    app_label: str,
    domain_label: str,
    time: float,
    ttl_s: float,
    in_namespaces: bool = False,
) -> Values:
    """Value of each app in a vector; None for an app with two series, or with an old one.

    `in_namespaces`: an app's name is `namespace/name`, and the label has the namespace.
    """
    found: dict[tuple[str, str], float | None] = {}
    for series in answer:
        app = series.metric.get(app_label)
        if app is None or series.value is None:
            continue
        place = series.metric.get(domain_label, "")
        key = ("", f"{place}/{app}") if in_namespaces and domain_label else (place, app)
        age, text = time - series.value[0], series.value[1]
        # Two series for one app contradict each other, and nothing says which is right.
        usable = key not in found and age <= ttl_s
        found[key] = number(text) if usable else None
    return found


def value_for(app: AppDeclared, found: Values) -> float | None:
    """Value of an app: of a series with its domain, else of one without a domain."""
    key = (app.domain, app.app)
    return found[key] if key in found else found.get(("", app.app))


def with_stateful_sets(found: Values, apps: Collection[str]) -> Values:
    """Values by app, of queries that name a StatefulSet `namespace/name` as if a Deployment.

    Where a Deployment has that name, the values are the Deployment's.
    """
    values = dict(found)
    for app in apps:
        match app.split("/"):
            case [namespace, "statefulsets", name] if (own := f"{namespace}/{name}") not in apps:
                if ("", own) in found:
                    values["", app] = found["", own]
    return values


def batches(
    domain: str,
    apps: Sequence[AppDeclared],
    answers: Mapping[str, Values],
    stamp: Stamp,
    source: str,
) -> list[MetricsSampled]:
    """Samples of a domain's apps; the last batch is marked final.

    Columns of pods have no null, so apps without all of them go in a batch without these columns.
    """
    with_pods: list[AppDeclared] = []
    without_pods: list[AppDeclared] = []
    for app in apps:
        pods = [value_for(app, answers.get(name, {})) for name in PODS]
        (with_pods if all(map(_is_count, pods)) else without_pods).append(app)
    parts = [(with_pods, (*SAMPLES, *PODS)), (without_pods, SAMPLES)]
    # Without apps a batch is due too: the final one closes the tick.
    parts = [part for part in parts if part[0]] or [([], ())]
    return [
        MetricsSampled(
            **stamp._asdict(),
            domain=domain,
            source=source,
            final=number == len(parts) - 1,
            apps=[app.app for app in part],
            **dict(_columns(part, names, answers)),
        )
        for number, (part, names) in enumerate(parts)
    ]


def _is_count(value: float | None) -> bool:
    # A number that is too large for the schema would get the whole batch rejected.
    return value is not None and value <= _LARGEST_COUNT


def _columns(
    apps: Sequence[AppDeclared], names: Sequence[str], answers: Mapping[str, Values]
) -> Iterator[tuple[str, Any]]:
    for name in names:
        if name in answers:
            values = [value_for(app, answers[name]) for app in apps]
            yield name, [round(value or 0) for value in values] if name in PODS else values


def pools_of(answers: Mapping[str, Values], stamp: Stamp) -> list[PoolObserved]:
    """Pools with all required fields; others are left out."""
    names = sorted({pool for found in answers.values() for _, pool in found})
    return [
        PoolObserved(**stamp._asdict(), pool=name, **fields)
        for name in names
        if (fields := _pool_fields(name, answers)) is not None
    ]


def _pool_fields(pool: str, answers: Mapping[str, Values]) -> dict[str, Any] | None:
    fields: dict[str, Any] = {}
    for name in (*POOL_FIELDS, *POOL_EXTRAS):
        # Pools belong to no domain: their series were read without a domain label.
        value = answers.get(name, {}).get(("", pool))
        if value is None or (name in _COUNTS and not _is_count(value)):
            continue
        fields[name] = round(value) if name in _COUNTS else value
    return fields if all(name in fields for name in POOL_FIELDS) else None

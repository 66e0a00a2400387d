"""Answers to queries become the samples of a tick; what was not answered is null, never zero."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from schemas.app_declared import AppDeclared
from schemas.columns import PODS
from schemas.metrics_sampled import MetricsSampled
from schemas.pool_observed import PoolObserved
from services._kit.ticks import spell
from services.collector.promql import Series, number
from services.collector.queries import POOL_EXTRAS, POOL_FIELDS, SAMPLES

Found = Mapping[tuple[str, str], float | None]
"""Numbers by domain and app; the domain is empty where the answer did not say it."""
_LARGEST_COUNT: Final = 2**31 - 1
_COUNTS: Final = ("ready", "booting", "quota", "requested")


class Stamp(NamedTuple):
    """What every event of one tick carries."""

    tick: int
    time: str
    trace_id: str


def stamp_of(tick: int, tick_s: int, source: str) -> Stamp:
    """Ticks are counted since 1970; the same tick has the same trace however often it is asked."""
    moment = datetime.fromtimestamp(tick * tick_s, UTC)
    trace = blake2b(f"{source}/{tick}".encode(), digest_size=16).hexdigest()
    return Stamp(tick, spell(moment), trace)


def numbers_of(
    answer: Sequence[Series], app_label: str, domain_label: str, time: float, ttl_s: float
) -> Found:
    """What a vector says about each app; two series for one app say nothing about it."""
    found: dict[tuple[str, str], float | None] = {}
    for series in answer:
        app = series.metric.get(app_label)
        if app is None or series.value is None:
            continue
        key = (series.metric.get(domain_label, ""), app)
        age, text = time - series.value[0], series.value[1]
        usable = key not in found and age <= ttl_s
        found[key] = number(text) if usable else None
    return found


def value_for(app: AppDeclared, found: Found) -> float | None:
    """The number of an app: with its domain, or of an answer that names none."""
    key = (app.domain, app.app)
    return found[key] if key in found else found.get(("", app.app))


def batches(
    domain: str,
    apps: Sequence[AppDeclared],
    answers: Mapping[str, Found],
    stamp: Stamp,
    source: str,
) -> list[MetricsSampled]:
    """Samples of a domain's apps, the last batch marked final.

    The API server's columns have no null, so apps of which it did not tell all come in a batch
    of their own without them.
    """
    told: list[AppDeclared] = []
    untold: list[AppDeclared] = []
    for app in apps:
        pods = [value_for(app, answers.get(name, {})) for name in PODS]
        (told if all(map(_countable, pods)) else untold).append(app)
    parts = [(told, (*SAMPLES, *PODS)), (untold, SAMPLES)]
    parts = [part for part in parts if part[0]] or [([], ())]
    return [
        MetricsSampled(
            **stamp._asdict(),
            domain=domain,
            source=source,
            final=place == len(parts) - 1,
            apps=[app.app for app in part],
            **dict(_columns(part, names, answers)),
        )
        for place, (part, names) in enumerate(parts)
    ]


def _countable(value: float | None) -> bool:
    """Whether it can be a count on the bus: one that cannot would take its whole batch with it."""
    return value is not None and value <= _LARGEST_COUNT


def _columns(
    apps: Sequence[AppDeclared], names: Sequence[str], answers: Mapping[str, Found]
) -> Iterator[tuple[str, Any]]:
    for name in names:
        if name in answers:
            values = [value_for(app, answers[name]) for app in apps]
            yield name, [round(value or 0) for value in values] if name in PODS else values


def pools_of(answers: Mapping[str, Found], stamp: Stamp) -> list[PoolObserved]:
    """Pools of which everything is known; about the others nothing is said."""
    names = sorted({pool for found in answers.values() for _, pool in found})
    return [
        PoolObserved(**stamp._asdict(), pool=name, **fields)
        for name in names
        if (fields := _pool_fields(name, answers)) is not None
    ]


def _pool_fields(pool: str, answers: Mapping[str, Found]) -> dict[str, Any] | None:
    fields: dict[str, Any] = {}
    for name in (*POOL_FIELDS, *POOL_EXTRAS):
        value = answers.get(name, {}).get(("", pool))
        if value is None or (name in _COUNTS and not _countable(value)):
            continue
        fields[name] = round(value) if name in _COUNTS else value
    return fields if all(name in fields for name in POOL_FIELDS) else None

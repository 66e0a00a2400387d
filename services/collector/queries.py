"""The queries file: the PromQL query of each sample, and how to read its result."""

from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import msgspec
import yaml
from msgspec import Meta

from schemas.app_declared import AppDeclared
from schemas.event_scheduled import EventScheduled
from schemas.fields import time_problem
from schemas.metrics_sampled import MEASURED, PODS
from services._kit.errors import BadSettings

DEFAULT_FILE: Final = Path(__file__).with_name("queries.yaml")
_SETS: Final = Path(__file__).with_name("sets")
SAMPLES: Final = (*MEASURED, "io_bytes_per_s", "network_bytes_per_s")
POOL_FIELDS: Final = ("ready", "booting", "quota", "free_cores", "free_memory_gib")
"""A pool without one of these is not published."""
POOL_EXTRAS: Final = ("requested", "node_cores", "node_memory_gib", "price_per_hour", "spent")

T = TypeVar("T")
Seconds = Annotated[float, Meta(gt=0)]


class BadQueries(BadSettings):
    """A queries or inventory file cannot be used; one line says why."""


class Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One query, for all apps at once."""

    query: Annotated[str, Meta(min_length=1)]
    app_label: str = ""
    """Label with the app's name, where this metric differs from the others."""


class Queries(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole file. In queries, $window and $ttl are replaced by the times below, such as 60s."""

    window_seconds: Seconds = 60.0
    """Window of rates; at least two scrapes have to fit."""
    ttl_seconds: Seconds = 30.0
    """Maximum age of a sample; an older one is missing."""
    app_label: str = "app"
    domain_label: str = "namespace"
    """Label with the app's domain; series without it match any domain."""
    pool_label: str = "pool"
    queries: dict[str, Query]
    """By column of MetricsSampled."""
    pools: dict[str, str] = {}
    """By field of PoolObserved."""
    history: str = ""
    """Query for the requests per second of each minute, per domain."""

    def __post_init__(self) -> None:
        _check("queries", self.queries, (*SAMPLES, *PODS))
        _check("pools", self.pools, (*POOL_FIELDS, *POOL_EXTRAS))
        # The aggregator counts an app as missing unless every column of its pods is reported.
        pods = [name for name in PODS if name in self.queries]
        if pods and len(pods) < len(PODS):
            missing = next(name for name in PODS if name not in self.queries)
            expected = f"expected all of {', '.join(PODS)} or none"
            raise ValueError(f"queries: {expected}, {missing} is missing")

    def without(self, columns: Collection[str]) -> "Queries":
        """The same without the queries of some columns, which another source has."""
        left = {name: query for name, query in self.queries.items() if name not in columns}
        return msgspec.structs.replace(self, queries=left)

    def with_times(self, query: str) -> str:
        """The query with $window and $ttl replaced."""
        window, ttl = f"{self.window_seconds:g}s", f"{self.ttl_seconds:g}s"
        return query.replace("$window", window).replace("$ttl", ttl)


class _Set(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Queries for the requests of one mesh or ingress, with the labels of the default file."""

    queries: dict[str, Query]
    history: str


class Declared(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The inventory file."""

    apps: list[AppDeclared]
    calendar: list[EventScheduled] = []

    def __post_init__(self) -> None:
        counts = Counter(app.app for app in self.apps)
        if twice := [name for name, count in counts.items() if count > 1]:
            raise ValueError(f"apps: expected each name once, got {twice[0]} again")
        for event in self.calendar:
            if problem := time_problem(event):
                raise ValueError(f"calendar: {event.name}: {problem}")


def load_queries(file: Path | None = None) -> Queries:
    """Read and validate a queries file; the default is for common exporters."""
    path = file or DEFAULT_FILE
    return _converted(path, _read(path), Queries)


def named_queries(name: str) -> Queries:
    """A set that ships, with the default for everything but requests, or else a file."""
    path, sets = _SETS / f"{name}.yaml", sorted(one.stem for one in _SETS.glob("*.yaml"))
    if name in sets:
        default, own = load_queries(), _converted(path, _read(path), _Set)
        queries = {**default.queries, **own.queries}
        return msgspec.structs.replace(default, queries=queries, history=own.history)
    if name and not Path(name).exists():
        raise BadQueries(f"{name}: no such file, and no set: expected one of {', '.join(sets)}")
    return load_queries(Path(name) if name else None)


def load_declared(file: Path) -> Declared:
    """Read and validate an inventory file; apps without an ordinal get the order of the file."""
    found = _read(file)
    apps = found.get("apps") if isinstance(found, dict) else None
    for index, app in enumerate(apps if isinstance(apps, list) else ()):
        if isinstance(app, dict):
            app.setdefault("ordinal", index)
    return _converted(file, found, Declared)


def _check(section: str, given: dict[str, Any], known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            raise ValueError(f"{section}: expected one of {', '.join(known)}, got {name}")


def _read(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadQueries(f"{path}: {' '.join(str(error).split())}") from None


def _converted(path: Path, found: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        raise BadQueries(f"{path}: {error}") from None

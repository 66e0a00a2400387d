"""Objects of the API server as apps, columns of samples, and pools. No IO."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from schemas.app_declared import AppDeclared
from services._kit.kubernetes.adoption import (
    DOMAIN,
    LATENCY_TARGET,
    MANAGED,
    MAX_REPLICAS,
    MIN_REPLICAS,
    MODE,
    PAUSED,
    SATURATION,
    TIER,
    app_name,
    workload_of_pod,
)
from services._kit.kubernetes.objects import Container, Node, Pod, PodMetrics, WorkloadObject
from services._kit.kubernetes.quantities import amount
from services._kit.kubernetes.sizes import Entry, key_of, resizable, size_now
from services.collector.batches import Values

Key = tuple[str, str, str]
"""Kind, namespace and name of a workload."""

_FIELDS: Final = {
    MIN_REPLICAS: "min_replicas",
    MAX_REPLICAS: "max_replicas",
    LATENCY_TARGET: "latency_target_s",
    TIER: "tier",
    SATURATION: "saturation",
    MODE: "mode",
}
"""Fields of a declaration by annotation."""
_PAUSES: Final = {"true": "all", "scale-in": "scale-in", "scale-out": "scale-out"}
_BOOT_S: Final = 900.0
"""A node that is not ready for longer than this has failed: nothing may be expected of it."""


class PoolTerms(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What no API says of a pool."""

    quota: Annotated[int, Meta(ge=0)]
    """Highest number of nodes."""
    price_per_hour: Annotated[float, Meta(ge=0)] = 0.0
    """Of one node."""


@dataclass(frozen=True)
class App:
    """One workload."""

    key: Key
    declared: AppDeclared
    replicas: int
    cpu_request: int
    memory_request: int
    container: Container | None = None
    """What a resize of its pods changes."""
    is_managed: bool = False
    """Adopted by annotation."""
    problem: str = ""
    """An annotation that is no value for its field."""


@dataclass(frozen=True)
class PodState:
    """One pod."""

    owner: Key | None
    node: str
    cores: float
    memory_gib: float
    is_ready: bool
    is_over: bool
    """Ended, or being deleted."""
    is_ended: bool
    """Only then it takes no room of its node: the scheduler counts it until it is gone."""
    restarts: int
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Millicores and MiB that each container has now."""


@dataclass(frozen=True)
class NodeState:
    """One node."""

    name: str
    pool: str
    is_ready: bool
    created: str
    cores: float
    memory_gib: float


@dataclass
class Pods:
    """Pods of one workload."""

    ready: int = 0
    starting: int = 0
    pending: int = 0
    restarts: int = 0
    sizes: list[Mapping[str, tuple[int, int]]] = field(default_factory=list)
    """Of each pod, by container."""


@dataclass
class _Pool:
    nodes: list[NodeState] = field(default_factory=list)
    booting: int = 0
    used_cores: float = 0.0
    used_gib: float = 0.0


def app_of(found: WorkloadObject, plural: str, kind: str) -> App:
    """A workload with the label of a domain.

    Raises ValidationError for a name that no app or domain can have: the API server also takes an
    empty label, and longer names.
    """
    meta = found.metadata
    name = app_name(plural, meta.namespace, meta.name)
    cpu, memory = found.spec.template.spec.size
    declared, problem = _declared(name, meta.labels.get(DOMAIN, ""), meta.annotations)
    return App(
        key=(kind, meta.namespace, meta.name),
        declared=declared,
        replicas=found.spec.replicas,
        cpu_request=cpu,
        memory_request=memory,
        container=resizable(name, found.spec.template.spec),
        # In doubt it is not changed.
        is_managed=meta.annotations.get(MANAGED) == "true" and not problem,
        problem=problem,
    )


def _declared(name: str, domain: str, annotations: Mapping[str, str]) -> tuple[AppDeclared, str]:
    fields: dict[str, Any] = {"app": name, "domain": domain, "ordinal": 0}
    given = {own: annotations[key] for key, own in _FIELDS.items() if key in annotations}
    if annotations.get(PAUSED) in _PAUSES:
        fields["pause"] = _PAUSES[annotations[PAUSED]]
    try:
        found = msgspec.convert({**fields, **given}, AppDeclared, strict=False)
    except msgspec.ValidationError as error:
        # In doubt it is not changed: without its bounds and in preview.
        fields["mode"] = "preview"
        return msgspec.convert(fields, AppDeclared), f"{name}: {error}"
    if annotations.get(MANAGED) != "true":
        found = msgspec.structs.replace(found, mode="off" if found.mode == "off" else "preview")
    return found, ""


def pod_of(found: Pod) -> PodState:
    """A pod."""
    cpu, memory = found.size
    return PodState(
        owner=workload_of_pod(found),
        node=found.spec.node_name,
        cores=cpu / 1000,
        memory_gib=memory / 1024,
        is_ready=found.is_ready,
        is_over=found.is_over,
        is_ended=found.is_ended,
        restarts=sum(one.restart_count for one in found.status.container_statuses),
        sizes=found.sizes,
    )


def node_of(found: Node, pool_label: str) -> NodeState:
    """A node; one that takes no pods is not ready."""
    ready = any(c.type == "Ready" and c.status == "True" for c in found.status.conditions)
    given = found.status.allocatable
    return NodeState(
        name=found.metadata.name,
        pool=found.metadata.labels.get(pool_label, ""),
        is_ready=ready and not found.spec.unschedulable,
        created=found.metadata.creation_timestamp,
        cores=float(amount(given.get("cpu", "0"))),
        memory_gib=float(amount(given.get("memory", "0"))) / 2**30,
    )


def pods_by_owner(pods: Iterable[PodState]) -> dict[Key, Pods]:
    """Counts by workload; pods that are over or being deleted count nowhere."""
    found: dict[Key, Pods] = {}
    for pod in pods:
        if pod.owner is None or pod.is_over:
            continue
        counts = found.setdefault(pod.owner, Pods())
        counts.restarts += pod.restarts
        counts.sizes.append(pod.sizes)
        if not pod.node:
            counts.pending += 1
        elif pod.is_ready:
            counts.ready += 1
        else:
            counts.starting += 1
    return found


def sized(
    apps: Iterable[App], entries: Mapping[str, str], pods: Mapping[Key, Pods]
) -> Iterator[App]:
    """Resized apps with the sizes that their pods have; see `services/_kit/kubernetes/sizes`."""
    for app in apps:
        entry = Entry.parse(entries.get(key_of(app.declared.app), ""))
        if entry is None or not entry.is_of(app.container):
            yield app
        else:
            each = pods.get(app.key, Pods()).sizes
            found = (sizes[entry.container] for sizes in each if entry.container in sizes)
            cpu, memory = size_now(entry, found)
            yield replace(app, cpu_request=cpu, memory_request=memory)


def columns_of(apps: Iterable[App], pods: Mapping[Key, Pods]) -> dict[str, Values]:
    """The columns from the API server, by name."""
    found: dict[str, dict[tuple[str, str], float | None]] = {}
    for app in apps:
        counts = pods.get(app.key, Pods())
        values = {
            "replicas": app.replicas,
            "cpu_request": app.cpu_request,
            "memory_request": app.memory_request,
            "ready": counts.ready,
            "starting": counts.starting,
            "pending": counts.pending,
            "restarts": counts.restarts,
        }
        for name, value in values.items():
            found.setdefault(name, {})["", app.declared.app] = float(value)
    return dict(found)


def usage_of(
    samples: Iterable[PodMetrics],
    owners: Mapping[tuple[str, str], Key],
    apps: Mapping[Key, str],
    now: float,
    ttl_s: float,
) -> dict[str, Values]:
    """CPU and memory by app, of the pods whose sample is recent; an app without any is missing."""
    cores: dict[tuple[str, str], float | None] = {}
    memory: dict[tuple[str, str], float | None] = {}
    measured: dict[tuple[str, str], float | None] = {}
    for sample in samples:
        owner = owners.get((sample.metadata.namespace, sample.metadata.name))
        app = None if owner is None else apps.get(owner)
        if app is None or now - _seconds(sample.timestamp) > ttl_s or not sample.containers:
            continue
        key = ("", app)
        used = [one.usage for one in sample.containers]
        cores[key] = (cores.get(key) or 0.0) + sum(float(amount(u.get("cpu", "0"))) for u in used)
        bytes_used = sum(float(amount(u.get("memory", "0"))) for u in used)
        memory[key] = (memory.get(key) or 0.0) + bytes_used / 2**30
        measured[key] = (measured.get(key) or 0.0) + 1.0
    return {"cpu_cores": cores, "memory_gib": memory, "measured_pods": measured}


def pools_of_nodes(
    nodes: Iterable[NodeState],
    pods: Iterable[PodState],
    terms: Mapping[str, PoolTerms],
    now: float,
) -> dict[str, Values]:
    """Fields of pools by name; a pool without terms has no quota, so it is not published.

    One with terms and without nodes is empty: the Commander decides nothing before it knows all.
    """
    pools, place = _by_pool(nodes, terms, now)
    for pod in pods:
        home = place.get(pod.node)
        if home is not None and not pod.is_ended:
            pools[home].used_cores += pod.cores
            pools[home].used_gib += pod.memory_gib
    found: dict[str, dict[tuple[str, str], float | None]] = {}
    for name, pool in pools.items():
        for column, value in _pool_values(pool, terms.get(name)).items():
            found.setdefault(column, {})["", name] = value
    return dict(found)


def _by_pool(
    nodes: Iterable[NodeState], terms: Iterable[str], now: float
) -> tuple[dict[str, _Pool], dict[str, str]]:
    """Pools, and the pool of each ready node."""
    pools: dict[str, _Pool] = {name: _Pool() for name in terms}
    place: dict[str, str] = {}
    for node in nodes:
        if not node.pool:
            continue
        pool = pools.setdefault(node.pool, _Pool())
        if node.is_ready:
            pool.nodes.append(node)
            place[node.name] = node.pool
        elif now - _seconds(node.created) <= _BOOT_S:
            pool.booting += 1
    return pools, place


def _pool_values(pool: _Pool, terms: PoolTerms | None) -> dict[str, float]:
    cores = sum(node.cores for node in pool.nodes)
    memory = sum(node.memory_gib for node in pool.nodes)
    count = len(pool.nodes)
    values = {
        "ready": float(count),
        "booting": float(pool.booting),
        "free_cores": max(0.0, cores - pool.used_cores),
        "free_memory_gib": max(0.0, memory - pool.used_gib),
        "node_cores": cores / count if count else 0.0,
        "node_memory_gib": memory / count if count else 0.0,
    }
    if terms is not None:
        values |= {"quota": float(terms.quota), "price_per_hour": terms.price_per_hour}
    return values


def _seconds(text: str) -> float:
    """RFC 3339 in seconds since 1970; what is no time is infinitely old."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return float("-inf")

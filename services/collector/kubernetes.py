"""What the API server knows of a cluster: workloads, pods and nodes, mirrored by watches.

It completes `PrometheusSource`, which has the requests: what the API server knows replaces queries
of the same columns. A mirror that is not current gives nothing, so its columns are missing.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from schemas.app_declared import AppDeclared
from schemas.fields import Event
from services._kit.clock import Clock
from services._kit.kubernetes.adoption import DOMAIN, KINDS, PLACEHOLDER
from services._kit.kubernetes.client import Denied, KubernetesApi, Unreachable
from services._kit.kubernetes.objects import Node, Pod, PodMetrics, WorkloadObject
from services._kit.kubernetes.sizes import ConfigMap, path_of
from services._kit.kubernetes.watch import Mirror
from services.collector.batches import Values
from services.collector.collect import SourceDown
from services.collector.custom_resources import CustomResources
from services.collector.queries import BadQueries
from services.collector.workloads import (
    App,
    Key,
    NodeState,
    PodState,
    PoolTerms,
    app_of,
    columns_of,
    node_of,
    pod_of,
    pods_by_owner,
    pools_of_nodes,
    sized,
    usage_of,
)

log = logging.getLogger(__name__)

_USAGE_BASE: Final = "/apis/metrics.k8s.io/v1beta1"
_USAGE: Final = f"{_USAGE_BASE}/pods"
_MOST_AT_ONCE: Final = 20_000
"""Pods up to which usage is one answer. metrics-server knows no pages; a pod has about 0.5 kB, or
more with many containers, and `LARGEST_ANSWER` is the most that is read of one."""
_NAMESPACES_AT_ONCE: Final = 4
USED: Final = ("cpu_cores", "memory_gib", "measured_pods")
"""Columns of usage."""
_SIZES: Final = ("cpu_request", "memory_request")
_FIRST: Final = asyncio.FIRST_COMPLETED
_START_S: Final = 30.0
"""Time for the first lists; then the start is tried again, and the log says why."""


class _NamedPod(msgspec.Struct, frozen=True):
    place: tuple[str, str]
    """Namespace and name."""
    state: PodState


class ClusterView:
    """The present state of a cluster."""

    def __init__(
        self,
        api: KubernetesApi,
        clock: Clock,
        on_error: Callable[[str], None],
        pool_label: str,
        terms: Mapping[str, PoolTerms],
        ttl_s: float = 30.0,
        usage: bool = True,
        own: CustomResources | None = None,
        sizes: str = "",
    ) -> None:
        self._api, self._clock, self._on_error = api, clock, on_error
        self._terms, self._ttl, self._usage = terms, ttl_s, usage
        self._own, self._sizes = own, path_of(sizes)
        self._workloads = {
            kind: Mirror[App](
                api, f"/apis/apps/v1/{plural}", WorkloadObject,
                partial(self._app, plural=plural, kind=kind), clock, {"labelSelector": DOMAIN},
            )
            for plural, kind in KINDS.items()
        }  # fmt: skip
        self._pods = Mirror[_NamedPod](api, "/api/v1/pods", Pod, _named, clock)
        self._nodes = Mirror[NodeState](
            api, "/api/v1/nodes", Node, partial(node_of, pool_label=pool_label), clock
        )
        self._mirrors: tuple[Mirror[Any], ...] = (
            *self._workloads.values(),
            self._pods,
            self._nodes,
        )
        self._running: list[asyncio.Task[None]] = []
        self._problems: set[str] = set()

    async def start(self) -> None:
        """Begin to watch; returns when everything was listed once."""
        if not self._running:
            await self._find_own()
            self._running = [asyncio.create_task(one.run()) for one in self._mirrors]
        listed = asyncio.gather(*(one.listed.wait() for one in self._mirrors))
        try:
            waited: set[asyncio.Future[Any]] = {listed, *self._running}
            await asyncio.wait(waited, timeout=_START_S, return_when=_FIRST)
            self._check_running()
            if not listed.done():
                raise SourceDown("the API server did not answer all lists, see above")
        finally:
            listed.cancel()

    async def _find_own(self) -> None:
        if self._own is not None:
            try:
                await self._own.find()
            except (Unreachable, Denied) as error:
                raise SourceDown(str(error)) from error
            self._mirrors += self._own.mirrors

    async def close(self) -> None:
        """Stop watching, and disconnect."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        if self._own is not None:
            await self._own.close()
        await self._api.close()

    def learn(self, event: Event) -> None:
        """Take in what the bus says about a domain."""
        if self._own is not None:
            self._own.learn(event)

    @property
    def domains(self) -> tuple[str, ...]:
        """Domains of the services, whether they have apps or not."""
        return () if self._own is None else self._own.domains

    @property
    def bytes_read(self) -> int:
        """Of all lists and watches so far."""
        return sum(one.bytes_read for one in self._mirrors)

    def declared(self) -> list[AppDeclared] | None:
        """Every app that is there; None if that is not known."""
        apps = self._apps()
        if apps is None:
            return None
        for app in apps:
            if app.problem:
                # It stays in preview.
                self._report("annotation", f"annotations of {app.problem}")
        return sorted((app.declared for app in apps), key=lambda one: one.app)

    async def samples(self) -> dict[str, Values]:
        """Columns of pods and of usage, as far as they are known now."""
        self._check_running()
        apps = self._apps()
        if apps is None or not self._pods.is_current(self._ttl):
            self._on_error("api-server")
            return {}
        if self._own is not None:
            self._own.report(apps)
        pods = list(self._pods.objects.values())
        entries = await self._entries()
        counts = pods_by_owner(one.state for one in pods)
        found = columns_of(sized(apps, entries or {}, counts), counts)
        if entries is None:
            found |= {name: {} for name in _SIZES}
        if self._usage:
            owners = {one.place: one.state.owner for one in pods if one.state.owner is not None}
            found |= await self._used(owners, {app.key: app.declared.app for app in apps})
        return found

    def pools(self) -> dict[str, Values]:
        """Fields of the pools; nothing while nodes or pods are not current."""
        if not self._nodes.is_current(self._ttl) or not self._pods.is_current(self._ttl):
            self._on_error("nodes")
            return {}
        pods = (one.state for one in self._pods.objects.values())
        return pools_of_nodes(self._nodes.objects.values(), pods, self._terms, self._clock.date())

    def _check_running(self) -> None:
        """A mirror that ended is a defect: end as well, so that the process is started again."""
        for task in self._running:
            if task.done():
                raise RuntimeError("a watch of the API server ended") from task.exception()

    def _app(self, found: WorkloadObject, plural: str, kind: str) -> App | None:
        """A workload as an app; None, with a warning, if no app can be called so."""
        try:
            return app_of(found, plural, kind)
        except msgspec.ValidationError as error:
            name = f"{found.metadata.namespace}/{plural}/{found.metadata.name}"
            self._report("workload", f"{name} is left out: {error}")
            return None

    def _apps(self) -> Sequence[App] | None:
        if not all(one.is_current(self._ttl) for one in self._workloads.values()):
            return None
        apps = [app for one in self._workloads.values() for app in one.objects.values()]
        if self._own is None:
            return apps
        # Without its profile a workload would for a moment have the bounds of its annotations.
        return self._own.declare(apps) if self._own.is_current(self._ttl) else None

    async def _entries(self) -> Mapping[str, str] | None:
        """Sizes of resized pods by app; None if they are not known."""
        if not self._sizes:
            return {}
        try:
            found = await self._api.get(self._sizes, ConfigMap)
        except (Unreachable, Denied) as error:
            self._on_error("sizes")
            log.warning("sizes of pods: %s", error)
            return None
        return {} if found is None else found.data

    async def _used(
        self, owners: Mapping[tuple[str, str], Key], apps: Mapping[Key, str]
    ) -> dict[str, Values]:
        try:
            samples = await self._usage_samples(owners, apps)
        except (Unreachable, Denied) as error:
            self._on_error("usage")
            log.warning("metrics.k8s.io: %s", error)
            return {name: {} for name in USED}
        return usage_of(samples, owners, apps, self._clock.date(), 2 * self._ttl)

    async def _usage_samples(
        self, owners: Mapping[tuple[str, str], Key], apps: Mapping[Key, str]
    ) -> list[PodMetrics]:
        """Samples of pods, in one answer or in one per namespace that has apps."""
        if len(self._pods.objects) <= _MOST_AT_ONCE:
            return (await self._api.list(_USAGE, PodMetrics)).items
        slots, samples = asyncio.Semaphore(_NAMESPACES_AT_ONCE), list[PodMetrics]()

        async def take(namespace: str) -> None:
            async with slots:
                path = f"{_USAGE_BASE}/namespaces/{namespace}/pods"
                samples.extend((await self._api.list(path, PodMetrics)).items)

        wanted = sorted({place[0] for place, owner in owners.items() if owner in apps})
        results = await asyncio.gather(*map(take, wanted), return_exceptions=True)
        for namespace, error in zip(wanted, results, strict=True):
            if isinstance(error, Unreachable | Denied):
                # Its apps are missing, and no others.
                self._on_error("usage")
                log.warning("metrics.k8s.io of namespace %s: %s", namespace, error)
            elif isinstance(error, BaseException):
                raise error
        return samples

    def _report(self, question: str, problem: str) -> None:
        """Once per problem: the workload stays as it is until it is mended."""
        if problem not in self._problems:
            self._problems.add(problem)
            self._on_error(question)
            log.warning("%s", problem)


def load_terms(file: Path) -> dict[str, PoolTerms]:
    """Quotas and prices by pool."""
    try:
        return msgspec.convert(yaml.safe_load(file.read_text()), dict[str, PoolTerms])
    except (OSError, UnicodeDecodeError, yaml.YAMLError, msgspec.ValidationError) as error:
        raise BadQueries(f"{file}: {' '.join(str(error).split())}") from None


def _named(found: Pod) -> _NamedPod | None:
    if PLACEHOLDER in found.metadata.labels:
        # Room that the provisioner holds is free: if it counted as taken, more would be requested.
        return None
    return _NamedPod((found.metadata.namespace, found.metadata.name), pod_of(found))

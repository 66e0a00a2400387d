"""Sizes of pods on Kubernetes: stored for new pods first, then given to those that run.

The entry in the ConfigMap is what makes a resize: the size and the decision are stored in one
write, against the version that was read. Running pods follow by `pods/resize`, with absolute
numbers, so that a repeated request changes nothing.
"""

import asyncio
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final

from services._kit.kubernetes.adoption import workload_of_pod
from services._kit.kubernetes.client import Answer, KubernetesApi, Unreachable, encoded
from services._kit.kubernetes.objects import Pod
from services._kit.kubernetes.sizes import (
    WRITER,
    ConfigMap,
    Entry,
    key_of,
    path_of,
    size_now,
)
from services.actuator.workloads import Running, Workload

_PENDING: Final = "PodResizePending"
_MERGE: Final = {"Content-Type": "application/merge-patch+json"}
_STRATEGIC: Final = {"Content-Type": "application/strategic-merge-patch+json"}
_LOOKS: Final = 10
"""Workloads whose pods are looked at per reading: each is a call, and changes need the others."""
_TRIES: Final = 4
"""Of one pod, whose status may change under our hands."""


class Sizes:
    """The ConfigMap at `place` (namespace/name); without one nothing is resized."""

    def __init__(self, api: KubernetesApi, place: str, timeout_s: float) -> None:
        self._api, self._path, self._timeout = api, path_of(place), timeout_s
        self._found: ConfigMap | None = None
        self._lock = asyncio.Lock()
        self._running: dict[str, Running] = {}
        """By app."""
        self._looks, self._looked = 0, dict[str, int]()
        """By app, the number of the last look at its pods."""

    async def read(self) -> None:
        """Take in what is stored now."""
        if self._path:
            async with self._lock:
                self._found = await self._api.get(self._path, ConfigMap)

    @property
    def exist(self) -> bool:
        """Whether pods can be resized."""
        return self._found is not None

    def of(self, app: str) -> Entry | None:
        """What was stored for an app, whether its template is still the same or not."""
        text = None if self._found is None else self._found.data.get(key_of(app))
        return None if text is None else Entry.parse(text)

    async def store(self, found: Workload, entry: Entry, *, dry_run: bool) -> Answer | None:
        """The server's answer; None if the app's entry has changed since it was read."""
        async with self._lock:
            if self._found is None or self.of(found.app) != found.entry:
                return None
            meta = self._found.metadata
            body = {
                "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
                "data": {key_of(found.app): str(entry)},
            }
            query = self._query(dry_run=dry_run)
            headers = {**_MERGE, "Audit-ID": entry.decision}
            answer = await self._api.request("PATCH", self._path, query, encoded(body), headers)
            if answer.status == HTTPStatus.OK and not dry_run:
                self._found = answer.decoded(ConfigMap)
            return answer

    def running(self, found: Workload) -> Running | None:
        """What the pods of a workload were seen to have; None if they were not looked at."""
        known = self._running.get(found.app)
        return known if known is not None and known.decision == found.sized_by else None

    async def look(self, workloads: Iterable[Workload]) -> None:
        """See what size the pods of resized workloads have, until all have the stored one.

        A few at a time, those first that were not looked at for longest: new pods have the size
        from the beginning, so what has followed once needs no second look.
        """
        left = [one for one in workloads if one.is_resized and not self._has_followed(one)]
        left.sort(key=lambda one: self._looked.get(one.app, 0))
        for one in left[:_LOOKS]:
            self._looks += 1
            self._looked[one.app] = self._looks
            await self._look(one)

    def _has_followed(self, found: Workload) -> bool:
        known = self.running(found)
        return known is not None and not known.waiting

    async def _look(self, found: Workload) -> None:
        entry = found.entry
        if entry is None:
            return
        pods = await self._pods(found)
        has = [(pod, pod.sizes[entry.container]) for pod in pods if entry.container in pod.sizes]
        others = [pod for pod, size in has if size_now(entry, [size]) != entry.size]
        waiting = ""
        if others:
            waiting = f"{len(others)} of {len(pods)} pods have another size{_why(others)}"
        size = size_now(entry, (size for _, size in has))
        self._running[found.app] = Running(entry.decision, size, waiting)

    async def resize(self, found: Workload, entry: Entry, *, dry_run: bool) -> str:
        """Why running pods keep their size; empty if all have the new one. A dry run tries one."""
        refused, count = "", 0
        pods = await self._pods(found)
        differing = [pod for pod in pods if _container_size(pod, entry) not in (None, entry.size)]
        for pod in differing[:1] if dry_run else differing:
            answer = await self._resize(pod, entry, dry_run=dry_run)
            if answer.status not in {HTTPStatus.OK, HTTPStatus.NOT_FOUND}:
                count, refused = count + 1, answer.message
        return f"{count} of {len(pods)} pods keep their size: {refused}" if count else ""

    async def _resize(self, pod: Pod, entry: Entry, *, dry_run: bool) -> Answer:
        path = f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}"
        containers = [{"name": entry.container, "resources": entry.resources}]
        for _ in range(_TRIES):
            meta = {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version}
            body = encoded({"metadata": meta, "spec": {"containers": containers}})
            query = self._query(dry_run=dry_run)
            headers = {**_STRATEGIC, "Audit-ID": entry.decision}
            answer = await self._api.request("PATCH", f"{path}/resize", query, body, headers)
            if answer.status >= 500 or answer.status == HTTPStatus.TOO_MANY_REQUESTS:
                # Once more with the whole write: what has its size by then is left alone.
                raise Unreachable(f"the API server answers {answer.status}")
            if answer.status != HTTPStatus.CONFLICT:
                break
            pod = await self._api.get(path, Pod) or pod
        return answer

    async def _pods(self, found: Workload) -> list[Pod]:
        selector = ",".join(f"{name}={value}" for name, value in found.pod_labels.items())
        path = f"/api/v1/namespaces/{found.namespace}/pods"
        listed = await self._api.list(path, Pod, {"labelSelector": selector})
        owner = (found.kind, found.namespace, found.name)
        return [pod for pod in listed.items if workload_of_pod(pod) == owner and not pod.is_over]

    def _query(self, *, dry_run: bool) -> dict[str, str]:
        query: dict[str, Any] = {"fieldManager": WRITER, "timeout": f"{self._timeout:g}s"}
        return {**query, "dryRun": "All"} if dry_run else query


def _why(pods: list[Pod]) -> str:
    """What a kubelet says of a resize that it has not carried out."""
    said = (one for pod in pods for one in pod.status.conditions if one.type == _PENDING)
    found = next(said, None)
    return "" if found is None else f" ({found.reason}: {' '.join(found.message.split())})"


def _container_size(pod: Pod, entry: Entry) -> tuple[int, int] | None:
    """Asked for by the container that the entry is about; None if the pod has no such one."""
    named = (one.resources.size for one in pod.spec.containers if one.name == entry.container)
    return next(named, None)

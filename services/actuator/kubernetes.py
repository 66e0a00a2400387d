"""A Kubernetes cluster as a target: reads workloads, and writes their replicas through `/scale`.

At most once: each patch carries the uid and the resource version of the workload as it was judged,
so whatever changed the workload since then makes the patch fail. After an answer that leaves open
whether a patch was made, the workload is read again, and its field manager says so
(`workloads.py`).
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from services._kit.kubernetes.adoption import DOMAIN, KINDS, app_name
from services._kit.kubernetes.client import Denied, KubernetesApi, Unreachable, encoded
from services._kit.kubernetes.objects import Autoscaler, Pod, WorkloadObject
from services._kit.kubernetes.sizes import Entry
from services.actuator.kubernetes_events import EventLog
from services.actuator.kubernetes_sizes import Sizes
from services.actuator.target import (
    Change,
    Limits,
    Read,
    Reading,
    StepLimits,
    TargetRequest,
    Withdrawal,
    Write,
    Written,
    unanswered,
    withdrawn,
)
from services.actuator.workloads import (
    APPLIED,
    REFUSED,
    UNMANAGED,
    Again,
    Owners,
    Patch,
    Resize,
    Settled,
    Trials,
    Workload,
    as_running,
    judge,
    manager_of,
    owners_of,
    pending_by_owner,
    settled,
    workload_of,
)

log = logging.getLogger(__name__)

_AUTOSCALERS: Final = {
    "HorizontalPodAutoscaler": "/apis/autoscaling/v2/horizontalpodautoscalers",
    "ScaledObject": "/apis/keda.sh/v1alpha1/scaledobjects",
}
_NO_NODE: Final = {"fieldSelector": "spec.nodeName=,status.phase=Pending"}
STEPS: Final = StepLimits(times=4, more=10)
"""What the admission policy in infra/k8s lets our account do in one write."""
_SHARED_S: Final = 2.0
"""Age up to which domains that are read one after another share what is read of all."""
_RETRY_S: Final = 0.2
_MOST_PAUSE_S: Final = 2.0
_PATCH: Final = "application/merge-patch+json"


class _Shared(NamedTuple):
    """What is read of the whole cluster at a time."""

    at: float
    owners: Owners
    pending: Mapping[tuple[str, str, str], int]


class KubernetesTarget:
    """Reads and scales the Deployments and StatefulSets that have a domain's label."""

    def __init__(
        self,
        api: KubernetesApi,
        timeout_s: float,
        give_up_s: float,
        concurrency: int,
        sizes: str = "",
    ) -> None:
        self._api, self._timeout = api, timeout_s
        self._events = EventLog(api)
        self._sizes = Sizes(api, sizes, timeout_s)
        self._limits = Limits(give_up_s)
        self._slots = asyncio.Semaphore(concurrency)
        self._known: dict[str, tuple[int, dict[str, Workload]]] = {}
        """By domain: the tick of the last read, and what it found."""
        self._shared: _Shared | None = None
        self._shared_lock = asyncio.Lock()
        self._ours: set[str] = set()
        """Uids of the workloads that we were seen to scale. A program that scales one of them
        afterwards is a second owner; one that did so before we adopted it is history."""
        self._trials = Trials()
        self._open_until: dict[str, float] = {}
        """By domain: until when a request that was cut off may still be carried out."""
        self._began: float | None = None

    async def carry_out(self, request: TargetRequest) -> Reading | Written:
        """The target's answer; when it never answers, nothing was read, or nothing is known."""
        if self._began is None:
            self._began = _now()
        reason = "the API server does not answer"
        try:
            async with asyncio.timeout_at(self._limits.deadline(request)):
                async for _ in _attempts():
                    try:
                        return await self._attempt(request)
                    except Unreachable as error:
                        reason = str(error)
                    except Denied as error:
                        # Our rights may be granted meanwhile; until then nothing is known.
                        reason = str(error)
        except TimeoutError:
            pass  # `reason` is that of the last attempt
        # A result, not an exception: an unreachable target must not stop the service.
        log.warning(
            "tick %d of %s: %s (%s)", request.tick, request.domain, reason, self._api.server
        )
        self._limits.end(request)
        return unanswered(request, reason)

    async def close(self) -> None:
        """Disconnect."""
        await self._events.close()
        await self._api.close()

    async def _attempt(self, request: TargetRequest) -> Reading | Written:
        match request:
            case Read():
                found = await self._workloads(request.domain)
                self._known[request.domain] = request.tick, found
                present = {app: one.present for app, one in found.items()}
                return Reading(domain=request.domain, tick=request.tick, apps=present)
            case Write():
                return await self._write(request)
            case Withdrawal():
                return await self._withdraw(request)

    async def _write(self, write: Write) -> Written:
        if not (write.changes or write.trials):
            return Written(domain=write.domain, tick=write.tick, answers={})
        # What was read for this tick serves once: a write that comes again needs a new reading.
        tick, known = self._known.pop(write.domain, (-1, {}))
        if tick != write.tick:
            known = await self._workloads(write.domain)
        jobs = [self._change(write, change, known.get(change.app)) for change in write.changes]
        ends = await asyncio.gather(*jobs)
        found = dict(zip((change.app for change in write.changes), ends, strict=True))
        return Written(
            domain=write.domain,
            tick=write.tick,
            answers={app: end.answer for app, end in found.items()},
            reasons={app: end.reason for app, end in found.items() if end.reason},
            trials=await self._try_all(write, known) if write.trials else {},
        )

    async def _try_all(self, write: Write, known: Mapping[str, Workload]) -> dict[str, str]:
        """What the trials would come to, as far as there is time."""
        found: dict[str, str] = {}

        async def attempt(change: Change) -> None:
            workload = known.get(change.app)
            words = self._trials.known(change, workload, _now())
            if not words:
                async with self._slots:
                    step = await self._take(write, change, workload, dry_run=True)
                words = self._trials.learn(change, workload, step, _now())
            if words:
                found[change.app] = words

        # Changes are answered in time whatever becomes of trials.
        half = (_now() + self._limits.deadline(write)) / 2
        with suppress(TimeoutError):
            async with asyncio.timeout_at(half):
                await asyncio.gather(*(attempt(change) for change in write.trials))
        return found

    async def _change(self, write: Write, change: Change, known: Workload | None) -> Settled:
        """Carry out one change, however often it takes."""
        async with self._slots:
            async for _ in _attempts():
                step = await self._take(write, change, known)
                if isinstance(step, Settled):
                    self._tell(change, known, step)
                    return step
                if step.after_s:
                    await asyncio.sleep(step.after_s)
                known = await self._reread(write.domain, change.app)
        raise AssertionError("attempts never end")

    def _tell(self, change: Change, found: Workload | None, end: Settled) -> None:
        if found is None:
            return
        if end.answer in {"applied", "repeat"}:
            # A repeat too: what made it may have died before it told.
            self._events.changed(found, change)
        elif end.answer == "refused" and end.reason != found.present.hold:
            self._events.refused(found, end.reason, change.decision_id)

    async def _take(
        self, write: Write, change: Change, found: Workload | None, *, dry_run: bool = False
    ) -> Settled | Again:
        """Judge a change, and send what it comes to."""
        step, entry = judge(write, change, found), None if found is None else found.entry
        writes = isinstance(step, Patch | Resize) and not dry_run
        if writes:
            self._open_until[write.domain] = _now() + 2 * self._timeout
        try:
            match step:
                case Patch():
                    return await self._patch(change, step, dry_run=dry_run)
                case Resize():
                    return await self._resize(step.workload, step.entry, dry_run=dry_run)
                case Settled("repeat") if found is not None and entry is not None:
                    if entry.decision == change.decision_id and not dry_run:
                        # What stored the size may have died before it resized all pods.
                        await self._resize_pods(found, entry)
                    return step
                case Settled():
                    return step
        except (Unreachable, Denied, asyncio.CancelledError) as error:
            if writes:
                # From now on: it may have waited for its turn, or for other requests of the step.
                self._open_until[write.domain] = _now() + 2 * self._timeout
            if isinstance(error, asyncio.CancelledError):
                raise
            return Again(0.0, str(error))

    async def _resize(self, found: Workload, entry: Entry, *, dry_run: bool) -> Settled | Again:
        # What is refused to a running pod, by a LimitRange for example, would be refused to every
        # new one: once it was stored, none could be made.
        if problem := await self._sizes.resize(found, entry, dry_run=True):
            return Settled("refused", REFUSED + problem)
        response = await self._sizes.store(found, entry, dry_run=dry_run)
        end = Again(0.0, "its size has changed") if response is None else settled(response)
        if end == APPLIED and not dry_run:
            await self._resize_pods(found, entry)
        return end

    async def _resize_pods(self, found: Workload, entry: Entry) -> None:
        if problem := await self._sizes.resize(found, entry, dry_run=False):
            self._events.kept_sizes(found, problem, entry.decision)

    async def _patch(self, change: Change, patch: Patch, *, dry_run: bool) -> Settled | Again:
        found = patch.workload
        body = {
            "metadata": {"uid": found.uid, "resourceVersion": found.version},
            "spec": {"replicas": patch.replicas},
        }
        # The server gives up with us: after that, nothing of the request is carried out.
        query = {"fieldManager": patch.manager, "timeout": f"{self._timeout:g}s"}
        headers = {"Content-Type": _PATCH, "Audit-ID": change.decision_id}
        if dry_run:
            query["dryRun"] = "All"
        path = f"{found.path}/scale"
        return settled(await self._api.request("PATCH", path, query, encoded(body), headers))

    async def _reread(self, domain: str, app: str) -> Workload | None:
        async for _ in _attempts():
            try:
                return await self._workload(domain, app)
            except (Unreachable, Denied) as error:
                log.debug("%s cannot be read again: %s", app, error)
        raise AssertionError("attempts never end")

    async def _withdraw(self, withdrawal: Withdrawal) -> Written:
        # An earlier process may have sent a patch just before it died, or this one may have been
        # cut off: what is read once the server has given up on those is final.
        began = self._began or 0.0
        until = max(began + 2 * self._timeout, self._open_until.get(withdrawal.domain, 0.0))
        await asyncio.sleep(max(0.0, until - _now()))
        # What is shared may have been read before that.
        self._shared = None
        found = await self._workloads(withdrawal.domain)
        ids = {change.app: change.decision_id for change in withdrawal.write.changes}
        made = {
            app: id_
            for app, id_ in ids.items()
            if app in found and {manager_of(id_), id_} & {found[app].manager, found[app].sized_by}
        }
        return withdrawn(withdrawal, made)

    async def _workloads(self, domain: str) -> dict[str, Workload]:
        """Every workload of a domain, by the name of its app."""
        shared = await self._of_all()
        query = {"labelSelector": f"{DOMAIN}={domain}"}
        found: dict[str, Workload] = {}
        for plural, kind in KINDS.items():
            listing = await self._api.list(f"/apis/apps/v1/{plural}", WorkloadObject, query)
            for one in listing.items:
                workload = self._seen(one, plural, kind, shared)
                found[workload.app] = workload
        await self._sizes.look(found.values())
        return {app: self._running(one) for app, one in found.items()}

    async def _workload(self, domain: str, app: str) -> Workload | None:
        namespace, *middle, name = app.split("/")
        plural = middle[0] if middle else "deployments"
        if plural not in KINDS or app != app_name(plural, namespace, name):
            return None
        path = f"/apis/apps/v1/namespaces/{namespace}/{plural}/{name}"
        await self._sizes.read()
        found = await self._api.get(path, WorkloadObject)
        # One that moved to another domain is that domain's business.
        if found is None or found.metadata.labels.get(DOMAIN) != domain:
            return None
        return self._running(self._seen(found, plural, KINDS[plural], await self._of_all()))

    def _running(self, found: Workload) -> Workload:
        """With the size that its pods were seen to have."""
        running = self._sizes.running(found) if found.is_resized else None
        return found if running is None else as_running(found, running)

    def _seen(self, found: WorkloadObject, plural: str, kind: str, shared: _Shared) -> Workload:
        meta = found.metadata
        pending = shared.pending.get((kind, meta.namespace, meta.name), 0)
        was_ours = meta.uid in self._ours
        entry = self._sizes.of(app_name(plural, meta.namespace, meta.name))
        workload = workload_of(
            found, plural, kind, shared.owners, pending, was_ours, entry, resizes=self._sizes.exist
        )
        self._events.seen(workload)
        if workload.is_ours:
            self._ours.add(meta.uid)
        elif workload.present.hold == UNMANAGED:
            # Handed back; whoever adopts it again takes it over as it is.
            self._ours.discard(meta.uid)
        return workload

    async def _of_all(self) -> _Shared:
        """Other owners, and pods without a node, of the whole cluster."""
        async with self._shared_lock:
            if self._shared is None or _now() - self._shared.at > _SHARED_S:
                began = _now()
                await self._sizes.read()
                owners: dict[tuple[str, str, str], str] = {}
                for kind, path in _AUTOSCALERS.items():
                    owners |= owners_of(kind, await self._list_if_served(path))
                pods = await self._api.list("/api/v1/pods", Pod, _NO_NODE)
                self._shared = _Shared(began, owners, pending_by_owner(pods.items))
            return self._shared

    async def _list_if_served(self, path: str) -> list[Autoscaler]:
        try:
            found: list[Autoscaler] = (await self._api.list(path, Autoscaler)).items
        except Denied as error:
            if error.status != 404:
                raise
            return []
        return found


async def _attempts() -> AsyncIterator[int]:
    """Attempts without end; from the second on after a growing pause with jitter."""
    attempt = 0
    while True:
        yield attempt
        attempt += 1
        longest = min(_RETRY_S * 2 ** min(attempt - 1, 10), _MOST_PAUSE_S)
        # Between half and all of it, so that writers that failed together do not come together.
        await asyncio.sleep(longest * (0.5 + 0.5 * random.random()))


def _now() -> float:
    return asyncio.get_running_loop().time()

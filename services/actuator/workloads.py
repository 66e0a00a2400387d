"""What the API server says of a workload, whether we may scale it, and what a change of it needs.

`/scale` stores no annotation, so a decision's id is kept in the name of our field manager. The API
server records the manager of `spec.replicas` in the same write as the number itself: both are
stored, or neither. Whoever scales the workload next replaces it.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from http import HTTPStatus
from typing import Final, NamedTuple

from msgspec.structs import replace

from services._kit.kubernetes.adoption import (
    MANAGED,
    MANAGER,
    PAUSED,
    app_name,
    workload_of_pod,
)
from services._kit.kubernetes.client import Answer as Response
from services._kit.kubernetes.objects import (
    Autoscaler,
    Container,
    ManagedFields,
    ObjectMeta,
    Pod,
    WorkloadObject,
)
from services._kit.kubernetes.sizes import Entry, entry_of, resizable
from services.actuator.target import Answer, Change, Present, Write

_LONGEST_MANAGER: Final = 128
"""Characters that the API server takes for a field manager."""
_SCALE: Final = "scale"
_HANDS: Final = frozenset({"kubectl", "oc"})
"""Managers of people's tools. A person may set a number; that is no second owner."""
_KUBECTL: Final = "kubectl-"
"""How kubectl's own names for its commands begin."""
_WEBHOOK: Final = "failed calling webhook"
"""In a 500 of the API server: the write was not made, and will not be."""

REFUSED: Final = "target-refused: "
_TRIAL_S: Final = 60.0
_LARGEST: Final = 2**31 - 1
"""Millicores or MiB: the rules keep numbers in 32-bit arrays, and the API server takes any."""
_TRIED: Final[dict[Answer, str]] = {
    "applied": "the API server would take the change",
    "refused": "the API server would refuse the change: ",
}
"""What a dry run says, by its answer."""

UNMANAGED: Final = "hold-unmanaged"
PAUSED_HERE: Final = "hold-paused"
SECOND_OWNER: Final = "hold-second-owner"
NO_RESIZE: Final = "hold-no-resize"
RESIZING: Final = "hold-resize-waits"
DELETED: Final = "hold-being-deleted"

Owners = Mapping[tuple[str, str, str], str]
"""Autoscalers by kind, namespace and name of what they scale."""


class Running(NamedTuple):
    """The size that the pods of a resized workload have."""

    decision: str
    """Behind the size that they were to get."""
    size: tuple[int, int]
    """Millicores and MiB."""
    waiting: str
    """Why it is another one; empty if it is not."""


@dataclass(frozen=True)
class Workload:
    """One workload as it was read."""

    path: str
    """Of the object at the API server."""
    app: str
    kind: str
    namespace: str
    name: str
    uid: str
    version: str
    """Resource version: any change of the object changes it."""
    present: Present
    manager: str
    """Who set the replicas last."""
    container: Container | None = None
    """What a resize of its pods changes; None if they cannot be resized."""
    entry: Entry | None = None
    """The size that was stored last, for this template or an earlier one."""
    pod_labels: Mapping[str, str] = field(default_factory=dict)
    waiting: str = ""
    """Why pods do not have the size of the entry; empty if they have it."""

    @property
    def sized_by(self) -> str:
        """The decision behind the stored size."""
        return "" if self.entry is None else self.entry.decision

    @property
    def is_resized(self) -> bool:
        """Whether the stored size counts for this template."""
        return self.entry is not None and self.entry.is_of(self.container)

    @property
    def is_ours(self) -> bool:
        """Whether we did."""
        return self.manager.startswith(MANAGER)


@dataclass(frozen=True)
class Patch:
    """A change that may be sent."""

    workload: Workload
    replicas: int
    manager: str


@dataclass(frozen=True)
class Resize:
    """A change of size that may be stored."""

    workload: Workload
    entry: Entry


@dataclass(frozen=True)
class Settled:
    """What a change comes to."""

    answer: Answer
    reason: str = ""


APPLIED: Final = Settled("applied")


@dataclass(frozen=True)
class Again:
    """Read the workload again, and judge the change anew."""

    after_s: float
    """What the server asks for; 0 if it asks for nothing."""
    reason: str


Step = Patch | Resize | Settled | Again
"""Where a change is."""


@dataclass
class Trials:
    """What dry runs came to. A plan in preview comes every tick, and is tried once a minute."""

    _last: dict[str, tuple[tuple[str, Change], float, str]] = field(default_factory=dict)
    """By app: what was tried, when, and what it came to."""

    def known(self, change: Change, found: Workload | None, now: float) -> str:
        """What the same trial came to lately; empty if it is not known."""
        tried, at, words = self._last.get(change.app, (None, 0.0, ""))
        return words if tried == _tried(change, found) and now - at < _TRIAL_S else ""

    def learn(self, change: Change, found: Workload | None, end: Step, now: float) -> str:
        """What a trial came to, in words; empty if the API server did not say."""
        if not isinstance(end, Settled) or end.answer not in _TRIED:
            return ""
        words = _TRIED[end.answer] + end.reason.removeprefix(REFUSED)
        self._last[change.app] = _tried(change, found), now, words
        return words


def _tried(change: Change, found: Workload | None) -> tuple[str, Change]:
    # Its numbers: each tick has another decision.
    return "" if found is None else found.uid, replace(change, decision_id="")


def workload_of(
    found: WorkloadObject,
    plural: str,
    kind: str,
    owners: Owners,
    pending: int,
    was_ours: bool,
    entry: Entry | None = None,
    *,
    resizes: bool = False,
) -> Workload:
    """A workload with its pods, of which `pending` have no node.

    `was_ours`: we have scaled it. `entry`: the size that was stored for it.
    """
    meta, template = found.metadata, found.spec.template.spec
    app = app_name(plural, meta.namespace, meta.name)
    container = resizable(app, template) if resizes else None
    size = template.size
    if entry is not None and entry.is_of(container):
        size = (entry.cpu, entry.memory)
    manager, _ = replicas_manager(meta.managed_fields)
    ready = min(found.status.ready_replicas, found.status.replicas)
    waiting = min(pending, found.status.replicas - ready)
    other = owners.get((kind, meta.namespace, meta.name), "")
    return Workload(
        path=f"/apis/apps/v1/namespaces/{meta.namespace}/{plural}/{meta.name}",
        app=app,
        kind=kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        manager=manager,
        container=container,
        entry=entry,
        pod_labels=found.spec.selector.match_labels,
        present=Present(
            replicas=found.spec.replicas,
            cpu_request=min(size[0], _LARGEST),
            memory_request=min(size[1], _LARGEST),
            ready=ready,
            starting=found.status.replicas - ready - waiting,
            pending=waiting,
            hold=_hold(found, other or (was_ours and _rival(meta)) or ""),
        ),
    )


def _hold(found: WorkloadObject, other: str) -> str:
    """Why we may not scale the workload; empty if we may."""
    meta = found.metadata
    if meta.deletion_timestamp:
        return DELETED
    if meta.annotations.get(MANAGED) != "true":
        return UNMANAGED
    if other:
        return f"{SECOND_OWNER}: {other}"
    return PAUSED_HERE if meta.annotations.get(PAUSED) == "true" else ""


def as_running(workload: Workload, running: Running) -> Workload:
    """The workload with the size that its pods have."""
    cpu, memory = running.size
    present = replace(workload.present, cpu_request=cpu, memory_request=memory)
    return dataclasses.replace(workload, present=present, waiting=running.waiting)


def replicas_manager(fields: list[ManagedFields]) -> tuple[str, str]:
    """Who set the replicas last, and through which subresource."""
    owners = [one for one in fields if "f:replicas" in one.fields_v1.spec]
    # Several own a number that they applied alike; the API server dates no write through /scale,
    # which is always by the last one.
    last = max(owners, key=lambda one: (one.subresource == _SCALE, one.time), default=None)
    return ("", "") if last is None else (last.manager, last.subresource)


def _rival(meta: ObjectMeta) -> str:
    """A program other than ours that scaled the workload last."""
    manager, subresource = replicas_manager(meta.managed_fields)
    accepted = manager.startswith((MANAGER, _KUBECTL)) or manager in _HANDS
    return manager if subresource == _SCALE and not accepted else ""


def owners_of(kind_of_owner: str, found: list[Autoscaler]) -> Owners:
    """What each autoscaler scales."""
    return {
        (
            one.spec.scale_target_ref.kind or "Deployment",
            one.metadata.namespace,
            one.spec.scale_target_ref.name,
        ): f"{kind_of_owner} {one.metadata.name}"
        for one in found
    }


def pending_by_owner(pods: list[Pod]) -> dict[tuple[str, str, str], int]:
    """Pods without a node, by kind, namespace and name of the workload that they belong to."""
    found: dict[tuple[str, str, str], int] = {}
    for pod in pods:
        owner = workload_of_pod(pod)
        if owner is not None and not pod.is_over:
            found[owner] = found.get(owner, 0) + 1
    return found


def manager_of(decision_id: str) -> str:
    """Name of our field manager for a decision; of a long id its end is a digest."""
    name = MANAGER + decision_id
    if len(name) <= _LONGEST_MANAGER and name.isprintable():
        return name
    digest = blake2b(decision_id.encode(), digest_size=16).hexdigest()
    clean = "".join(c if c.isprintable() else "?" for c in name)
    return f"{clean[: _LONGEST_MANAGER - len(digest) - 1]}#{digest}"


def judge(write: Write, change: Change, found: Workload | None) -> Patch | Resize | Settled:
    """What a change comes to with the workload as it is now."""
    if found is None:
        return Settled("unknown")
    manager = manager_of(change.decision_id)
    if found.manager == manager or found.sized_by == change.decision_id:
        return Settled("repeat")
    for decided in (found.manager, MANAGER + found.sized_by):
        if _tick_of(decided, write.domain) > write.tick:
            return Settled("superseded")
    if found.present.hold:
        return Settled("refused", found.present.hold)
    return _step(change, found, manager)


def _step(change: Change, found: Workload, manager: str) -> Patch | Resize | Settled:
    """What to write, or what speaks against a change in its numbers."""
    before, present = change.before, found.present
    sizes = (present.cpu_request, present.memory_request)
    if (present.replicas, *sizes) != (before.replicas, before.cpu_request, before.memory_request):
        return Settled("conflict")
    if sizes == (change.cpu_request, change.memory_request):
        # With the same number nothing would be stored, not even who asked for it.
        equal = change.replicas == present.replicas
        return Settled("conflict") if equal else Patch(found, change.replicas, manager)
    # Replicas and sizes have a journal each, so one write changes one of them (`STEPS`).
    if found.container is None or change.replicas != present.replicas:
        return Settled("refused", NO_RESIZE)
    new = (change.cpu_request, change.memory_request)
    if found.is_resized and found.entry is not None and new == found.entry.size:
        # It is stored, and the kubelets will carry it out when there is room.
        return Settled("refused", f"{RESIZING}: {found.waiting}")
    return Resize(found, entry_of(found.container, *new, change.decision_id))


def _tick_of(manager: str, domain: str) -> int:
    """Tick of the decision of ours that a manager stands for; -1 if it is of someone else."""
    prefix = f"{MANAGER}{domain}/"
    tick = manager.removeprefix(prefix).partition("/")[0] if manager.startswith(prefix) else ""
    return int(tick) if tick.isascii() and tick.isdigit() else -1


def settled(response: Response) -> Settled | Again:
    """What an answer to a patch means."""
    status, words = response.status, response.message
    if status == HTTPStatus.OK:
        return APPLIED
    if status in {HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND}:
        # Changed or deleted since it was read.
        return Again(0.0, f"the API server answers {status}")
    if status == HTTPStatus.INTERNAL_SERVER_ERROR and _WEBHOOK in words:
        return Settled("refused", REFUSED + words)
    if status >= 500 or status in {
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.TOO_MANY_REQUESTS,
    }:
        return Again(response.retry_after_s, f"the API server answers {status}")
    return Settled("refused", REFUSED + words)

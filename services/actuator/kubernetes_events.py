"""Kubernetes Events: `kubectl describe` of a workload says what was done and what was not.

Best effort and in the background: no change waits for its Event, and when there are too many the
oldest are dropped. An Event's name follows from what it says, so it is stored once, whatever dies.
"""

import asyncio
import logging
from collections import deque
from hashlib import blake2b
from typing import Any, Final, Literal

from services._kit.clock import Clock, SystemClock, rfc3339
from services._kit.kubernetes.client import KubernetesApi, Unreachable, encoded
from services.actuator.target import Change
from services.actuator.workloads import SECOND_OWNER, Workload

log = logging.getLogger(__name__)

_CONTROLLER: Final = "hirl.dev/actuator"
_MOST_WAITING: Final = 1000
_PAUSE_S: Final = 0.2
"""Between two Events: they share the budget of calls with changes, which matter more."""
_LONGEST_NOTE: Final = 1000
"""Bytes; the API server takes 1,024."""


class EventLog:
    """Events that wait to be stored."""

    def __init__(self, api: KubernetesApi, clock: Clock | None = None) -> None:
        self._api, self._clock = api, clock or SystemClock()
        self._waiting: deque[dict[str, Any]] = deque(maxlen=_MOST_WAITING)
        self._holds: dict[str, str] = {}
        """Holds that were told, by uid."""
        self._task: asyncio.Task[None] | None = None

    def changed(self, found: Workload, change: Change) -> None:
        """A change was made."""
        before, what = change.before, "Scaled"
        note = f"{before.replicas} -> {change.replicas} replicas"
        if before.replicas == change.replicas:
            what = "Resized"
            old = f"{before.cpu_request}m and {before.memory_request}Mi"
            note = f"{old} -> {change.cpu_request}m and {change.memory_request}Mi per pod"
        self._add(found, "Normal", what, f"{note}, decision {change.decision_id}")

    def refused(self, found: Workload, reason: str, decision_id: str) -> None:
        """The API server refused a change."""
        self._add(found, "Warning", "ScalingRefused", f"{reason}, decision {decision_id}")

    def kept_sizes(self, found: Workload, problem: str, decision_id: str) -> None:
        """Some running pods keep their size until they are replaced."""
        self._add(found, "Warning", "PodsNotResized", f"{problem}, decision {decision_id}")

    def seen(self, found: Workload) -> None:
        """Tell of a second owner when it is new."""
        hold = found.present.hold
        if not hold.startswith(SECOND_OWNER):
            self._holds.pop(found.uid, None)
        elif self._holds.get(found.uid) != hold:
            self._holds[found.uid] = hold
            rival = hold.partition(": ")[2]
            note = f"not scaled: {rival} scales it too; remove it, then annotate the workload anew"
            self._add(found, "Warning", "SecondOwner", note)

    async def close(self) -> None:
        """Drop what waits."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _add(
        self, found: Workload, kind: Literal["Normal", "Warning"], reason: str, note: str
    ) -> None:
        words = "".join(c if c.isprintable() else "?" for c in note)
        digest = blake2b(f"{found.uid}/{reason}/{note}".encode(), digest_size=8).hexdigest()
        self._waiting.append(
            {
                "metadata": {"name": f"{found.name[:200]}.{digest}", "namespace": found.namespace},
                "eventTime": rfc3339(self._clock.date()).replace("Z", "000Z"),
                "type": kind,
                "reason": reason,
                "action": "Scale",
                "note": words.encode()[:_LONGEST_NOTE].decode(errors="ignore"),
                "regarding": {
                    "apiVersion": "apps/v1",
                    "kind": found.kind,
                    "namespace": found.namespace,
                    "name": found.name,
                    "uid": found.uid,
                },
                "reportingController": _CONTROLLER,
                "reportingInstance": "actuator",
            }
        )
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._store())

    async def _store(self) -> None:
        while self._waiting:
            event = self._waiting.popleft()
            path = f"/apis/events.k8s.io/v1/namespaces/{event['metadata']['namespace']}/events"
            headers = {"Content-Type": "application/json"}
            try:
                answer = await self._api.request("POST", path, None, encoded(event), headers)
            except Unreachable as error:
                log.debug("an event was not stored: %s", error)
            else:
                # 409: it was stored before.
                if answer.status not in {201, 409}:
                    log.debug("an event was refused: %s", answer.message)
            await asyncio.sleep(_PAUSE_S)

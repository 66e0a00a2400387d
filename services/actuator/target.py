"""The target's port: what is asked of it, and what it answers.

A target stores each app's last decision with its numbers and journals every write, so a decision
that arrives again changes nothing. A change names the numbers it was decided against: if the
target has others by then, it refuses the change. `simulated.py` is the simulated cluster behind
HTTP.
"""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from models.cluster.arrays import I32

Answer = Literal["applied", "repeat", "superseded", "conflict", "unknown", "refused", "withdrawn"]
"""applied: changed now. repeat: the same decision had changed it before. superseded: a newer
decision had changed it before. conflict: its numbers are not those that the change was decided
against. unknown: the app does not exist; the simulated cluster refuses such an app instead.
refused: the target rejected the change. withdrawn: not changed, because it was withdrawn."""


class Numbers(msgspec.Struct, frozen=True):
    """What can be set on an app."""

    replicas: Annotated[int, Meta(ge=0)]
    cpu_request: Annotated[int, Meta(ge=0, description="millicores per pod")]
    memory_request: Annotated[int, Meta(ge=0, description="MiB per pod")]


_Number = Annotated[int, Meta(ge=0, le=2**31 - 1)]
"""The rules keep numbers in 32-bit arrays."""


class Present(msgspec.Struct, frozen=True, kw_only=True):
    """What the target has of one app now."""

    replicas: _Number
    cpu_request: _Number
    memory_request: _Number
    ready: _Number
    starting: _Number
    pending: _Number
    hold: str = ""
    """Why the target would not change the app now; empty if it would."""


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for what a domain has now, to decide about a tick."""

    domain: str
    tick: int


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a read."""

    domain: str
    tick: int
    apps: dict[str, Present] | None
    """By name; None if the target could not be read."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """New numbers of one app."""

    app: str
    replicas: Annotated[int, Meta(ge=0)]
    cpu_request: Annotated[int, Meta(ge=0, description="millicores per pod")]
    memory_request: Annotated[int, Meta(ge=0, description="MiB per pod")]
    before: Numbers
    """What it was decided against; the target refuses the change if it has something else."""
    decision_id: str


class StepLimits(NamedTuple):
    """Most that a target takes in one write of an app."""

    times: int
    """Up to so many times the replicas, and down to so many parts of them."""
    more: int
    """Up to so many more than that: a small app may grow faster."""

    def cut(self, present: I32, wanted: I32) -> I32:
        """The wanted replicas [A], as far as one step reaches from the present ones."""
        wide = present.astype(np.int64)
        # Rounded up: less than a part is refused.
        least, most = -(-wide // self.times), self.times * wide + self.more
        within = np.clip(wanted, least, most)
        # Others start, and stop, what is at 0.
        return np.where((present > 0) & (wanted > 0), within, wanted).astype(np.int32)

    def part(self, present: I32, wanted: I32) -> I32:
        """What one write makes of the wanted numbers [3, A]: replicas, millicores and MiB.

        It changes the replicas of an app or its size, and capacity grows before it shrinks.
        """
        part = wanted.copy()
        part[0] = self.cut(present[0], wanted[0])
        both = (part[0] != present[0]) & (part[1:] != present[1:]).any(axis=0)
        fewer = both & (part[0] < present[0])
        part[0, fewer] = present[0, fewer]
        part[1:, both & ~fewer] = present[1:, both & ~fewer]
        return part


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """All changes of a domain's tick; an empty write closes the tick too."""

    domain: str
    tick: int
    changes: list[Change]
    trials: list[Change] = []
    """Changes that only preview holds. A target that can check whether it would take them says so;
    it never makes them."""


class Withdrawal(msgspec.Struct, frozen=True, kw_only=True):
    """Closes the tick of a write that may have been made, so that no more of it is made.

    The answer says which of its changes were made before.
    """

    write: Write
    reason: str

    @property
    def domain(self) -> str:
        """Domain of the write."""
        return self.write.domain

    @property
    def tick(self) -> int:
        """Tick of the write."""
        return self.write.tick


TargetRequest = Read | Write | Withdrawal


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a write or a withdrawal."""

    domain: str
    tick: int
    answers: dict[str, Answer]
    """Answers by app."""
    detail: str = ""
    """Why changes were refused or withdrawn. It goes into the audit, which many may read: no
    addresses."""
    reasons: dict[str, str] = {}
    """Why changes were refused, by app; they win over `detail`."""
    trials: dict[str, str] = {}
    """What each checked trial would have come to, by app."""
    answered: bool = True
    """False: it is unknown whether the changes were made, and they may still be made."""


def withdrawn(withdrawal: Withdrawal, decisions: Mapping[str, str]) -> Written:
    """The answer to a withdrawal, from the last decision ids by app after the tick was closed."""
    answers: dict[str, Answer] = {
        change.app: "repeat" if decisions.get(change.app) == change.decision_id else "withdrawn"
        for change in withdrawal.write.changes
    }
    return Written(
        domain=withdrawal.domain, tick=withdrawal.tick, answers=answers, detail=withdrawal.reason
    )


def unanswered(request: TargetRequest, reason: str) -> Reading | Written:
    """What a request comes to without an answer: nothing was read, or nothing is known."""
    if isinstance(request, Read):
        return Reading(domain=request.domain, tick=request.tick, apps=None)
    return Written(
        domain=request.domain, tick=request.tick, answers={}, detail=reason, answered=False
    )


class Limits:
    """When to give up: one limit for reading and writing a tick, of which reading gets half."""

    def __init__(self, give_up_s: float) -> None:
        self._give_up = give_up_s
        self._began: dict[str, tuple[int, float]] = {}
        """By domain: the tick in progress, and when its first request began."""

    def deadline(self, request: TargetRequest) -> float:
        """Time of the event loop at which to give up."""
        now = asyncio.get_running_loop().time()
        tick, began = self._began.get(request.domain, (-1, now))
        if tick != request.tick or isinstance(request, Read):
            began = now
        self._began[request.domain] = request.tick, began
        return began + self._give_up / (2 if isinstance(request, Read) else 1)

    def end(self, request: TargetRequest) -> None:
        """Gave up: the next request has the whole time."""
        self._began.pop(request.domain, None)

"""The target: what it has now, and writes to it; its port, and the simulated cluster behind HTTP.

A target stores each app's last decision id with its numbers and journals every write, so a
decision that arrives again changes nothing. A change names the numbers it was decided against: if
the target has others by then, it refuses the change.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Annotated, Final, Literal, TypeVar

import aiohttp
import msgspec
from msgspec import Meta

from services._kit.http import MALFORMED, client_session, request

log = logging.getLogger(__name__)

T = TypeVar("T")

_RETRY_S: Final = 0.2
"""Pause between attempts at an unreachable target."""
_ASK_AGAIN: Final = {
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.TOO_EARLY,
    HTTPStatus.TOO_MANY_REQUESTS,
}
"""Rejections that pass with time."""
_MOST_WORDS: Final = 200
"""Bytes that are kept of a refusal's text."""

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


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """All changes of a domain's tick; an empty write closes the tick too."""

    domain: str
    tick: int
    changes: list[Change]


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


Effect = Read | Write | Withdrawal


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a write or a withdrawal."""

    domain: str
    tick: int
    answers: dict[str, Answer]
    """Answers by app."""
    detail: str = ""
    """Why changes were refused or withdrawn. It goes into the audit, which many may read: no
    addresses."""
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


class _Stored(msgspec.Struct, frozen=True):
    decision_id: str
    present: Present


class _Domain(msgspec.Struct, frozen=True):
    closed_tick: int
    apps: dict[str, _Stored]


class _Unreachable(Exception):  # noqa: N818  the target is, for now
    """No answer, or one that asks to retry."""


class _Rejected(Exception):  # noqa: N818  the write was
    """An answer that a retry would not change."""


class _WrongTick(_Rejected):
    """The target takes no write of this tick."""


class SimulatedTarget:
    """Writes to the simulated cluster over HTTP, with retries.

    A write whose answer was lost, here or in an earlier process, may have been made. So the stored
    decisions are read before it is sent again: what was made is not written again.
    """

    def __init__(self, url: str, timeout_s: float, give_up_s: float) -> None:
        self._url, self._give_up = url.rstrip("/"), give_up_s
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._session: aiohttp.ClientSession | None = None
        self._all_answered: set[str] = set()
        """Domains of which this process knows the answers to all writes."""
        self._began: dict[str, tuple[int, float]] = {}
        """By domain: the tick in progress, and when its first effect began."""

    async def carry_out(self, effect: Effect) -> Reading | Written:
        """The target's answer; when it never answers, nothing was read, or nothing is known."""
        reason = "the target does not answer"
        try:
            async with asyncio.timeout_at(self._deadline(effect)):
                while True:
                    try:
                        return await self._attempt(effect)
                    except _Unreachable as error:
                        reason = str(error)
                    await asyncio.sleep(_RETRY_S)
        except _Rejected as error:
            reason = str(error)
        except TimeoutError:
            pass  # `reason` is that of the last attempt
        # A result, not an exception: an unreachable target must not stop the service.
        self._warn(effect, reason)
        self._began.pop(effect.domain, None)
        if isinstance(effect, Read):
            return Reading(domain=effect.domain, tick=effect.tick, apps=None)
        return Written(
            domain=effect.domain, tick=effect.tick, answers={}, detail=reason, answered=False
        )

    async def close(self) -> None:
        """Disconnect."""
        if self._session is not None:
            await self._session.close()

    def _warn(self, effect: Effect, words: str) -> None:
        log.warning("tick %d of %s: %s (%s)", effect.tick, effect.domain, words, self._url)

    def _deadline(self, effect: Effect) -> float:
        """One limit for reading and writing a tick, of which reading gets half."""
        now = asyncio.get_running_loop().time()
        tick, began = self._began.get(effect.domain, (-1, now))
        if tick != effect.tick or isinstance(effect, Read):
            began = now
        self._began[effect.domain] = effect.tick, began
        return began + self._give_up / (2 if isinstance(effect, Read) else 1)

    async def _attempt(self, effect: Effect) -> Reading | Written:
        match effect:
            case Read():
                return await self._read(effect)
            case Write():
                return await self._write(effect)
            case Withdrawal():
                return await self._withdraw(effect)

    async def _read(self, read: Read) -> Reading:
        found = await self._domain(read.domain)
        present = {app: stored.present for app, stored in found.apps.items()}
        return Reading(domain=read.domain, tick=read.tick, apps=present)

    async def _write(self, write: Write) -> Written:
        repeats = await self._repeats(write)
        left = [change for change in write.changes if change.app not in repeats]
        try:
            # An empty write is sent too: it closes the tick.
            answer = await self._put(write, left)
        except _Rejected as error:
            self._warn(write, f"held: {error}")
            answer = _refused(write, str(error))
            # An earlier request that was not answered may have been late, and made meanwhile.
            repeats = await self._repeats(write)
        return msgspec.structs.replace(answer, answers={**answer.answers, **repeats})

    async def _withdraw(self, withdrawal: Withdrawal) -> Written:
        # Closed first: what an earlier process still sends is superseded then, so what is stored
        # afterwards is final. A tick that the target does not take has no changes.
        try:
            with suppress(_WrongTick):
                await self._put(withdrawal.write, [])
        except _Rejected as error:
            # The tick is still open: a write under way could be made after we said it was not.
            raise _Unreachable(str(error)) from error
        return withdrawn(withdrawal, await self._decisions(withdrawal.domain))

    async def _put(self, write: Write, changes: Sequence[Change]) -> Written:
        # Until the answer arrives, the write may have been made without our knowing.
        self._all_answered.discard(write.domain)
        path = f"/v1/domains/{write.domain}/ticks/{write.tick}"
        body = msgspec.json.encode({"changes": changes})
        answer = _decoded(await self._request("PUT", path, body), Written)
        self._all_answered.add(write.domain)
        # What it answers is known here; its body could pass for the answer to another write.
        return msgspec.structs.replace(answer, domain=write.domain, tick=write.tick, answered=True)

    async def _repeats(self, write: Write) -> dict[str, Answer]:
        """Changes of the write that were made already."""
        if write.domain in self._all_answered or not write.changes:
            return {}
        stored = await self._decisions(write.domain)
        return {
            change.app: "repeat"
            for change in write.changes
            if stored.get(change.app) == change.decision_id
        }

    async def _decisions(self, domain: str) -> dict[str, str]:
        """Ids of the last decisions by app."""
        try:
            stored = (await self._domain(domain)).apps
        except _Rejected as error:
            # Ask again: without them it is unknown which changes were made.
            raise _Unreachable(str(error)) from error
        return {app: one.decision_id for app, one in stored.items()}

    async def _domain(self, domain: str) -> _Domain:
        body = await self._request("GET", f"/v1/domains/{domain}", b"")
        return _decoded(body, _Domain)

    async def _request(self, method: str, path: str, body: bytes) -> bytes:
        if self._session is None:
            self._session = client_session()
        url = self._url + path
        try:
            status, text = await request(
                self._session, method, url, timeout=self._timeout, data=body
            )
        except (aiohttp.ClientError, TimeoutError) as error:
            # Its text names addresses; the kind is enough in the audit.
            raise _Unreachable(f"the target does not answer ({type(error).__name__})") from error
        # A retry may help if the server failed or asks for one; other rejections stay.
        if status >= 500 or status in _ASK_AGAIN:
            raise _Unreachable(f"the target answers {status}")
        # A redirect as well: who answers elsewhere is not the target.
        if status >= 300:
            words = text[:_MOST_WORDS].decode(errors="replace")
            rejected = _WrongTick if status == HTTPStatus.CONFLICT else _Rejected
            raise rejected(f"the target answers {status} to {method} {path}: {words}")
        return text


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except MALFORMED as error:
        # Like no answer: whatever the target says, it must not stop the service.
        words = f"the target's answer is malformed ({error!s:.{_MOST_WORDS}})"
        raise _Unreachable(words) from error


def _refused(write: Write, detail: str) -> Written:
    answers: dict[str, Answer] = {change.app: "refused" for change in write.changes}
    return Written(domain=write.domain, tick=write.tick, answers=answers, detail=detail)

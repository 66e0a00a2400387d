"""The simulated cluster as a target, behind HTTP."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Final, TypeVar

import aiohttp
import msgspec

from services._kit.http import MALFORMED, client_session, request
from services.actuator.target import (
    Answer,
    Change,
    Limits,
    Present,
    Read,
    Reading,
    TargetRequest,
    Withdrawal,
    Write,
    Written,
    unanswered,
    withdrawn,
)

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
        self._url, self._limits = url.rstrip("/"), Limits(give_up_s)
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._session: aiohttp.ClientSession | None = None
        self._all_answered: set[str] = set()
        """Domains of which this process knows the answers to all writes."""

    async def carry_out(self, request: TargetRequest) -> Reading | Written:
        """The target's answer; when it never answers, nothing was read, or nothing is known."""
        reason = "the target does not answer"
        try:
            async with asyncio.timeout_at(self._limits.deadline(request)):
                while True:
                    try:
                        return await self._attempt(request)
                    except _Unreachable as error:
                        reason = str(error)
                    await asyncio.sleep(_RETRY_S)
        except _Rejected as error:
            reason = str(error)
        except TimeoutError:
            pass  # `reason` is that of the last attempt
        # A result, not an exception: an unreachable target must not stop the service.
        self._warn(request, reason)
        self._limits.end(request)
        return unanswered(request, reason)

    async def close(self) -> None:
        """Disconnect."""
        if self._session is not None:
            await self._session.close()

    def _warn(self, request: TargetRequest, words: str) -> None:
        log.warning("tick %d of %s: %s (%s)", request.tick, request.domain, words, self._url)

    async def _attempt(self, request: TargetRequest) -> Reading | Written:
        match request:
            case Read():
                return await self._read(request)
            case Write():
                return await self._write(request)
            case Withdrawal():
                return await self._withdraw(request)

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

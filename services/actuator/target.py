"""The target of writes: its port, and the simulated cluster behind HTTP.

A target stores each app's last decision id with its numbers and journals every write, so a
decision that arrives again changes nothing.
"""

import asyncio
import logging
from typing import Annotated, Any, Final, Literal

import aiohttp
import msgspec
from msgspec import Meta

log = logging.getLogger(__name__)

_RETRY_S: Final = 0.2
"""Pause between attempts at an unreachable target."""

Answer = Literal["applied", "repeat", "superseded", "unknown", "refused"]
"""applied: changed now. repeat: the same decision had changed it before. superseded: a newer
decision had changed it before. unknown: the app does not exist; the simulated cluster refuses such
an app instead. refused: the target rejected the change or could not be reached."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """New numbers of one app."""

    app: str
    replicas: Annotated[int, Meta(ge=0)]
    cpu_request: Annotated[int, Meta(ge=0, description="millicores per pod")]
    memory_request: Annotated[int, Meta(ge=0, description="MiB per pod")]
    decision_id: str


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """All changes of a domain's tick; an empty write closes the tick too."""

    domain: str
    tick: int
    changes: list[Change]


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a write."""

    domain: str
    tick: int
    answers: dict[str, Answer]
    """Answers by app."""
    detail: str = ""
    """Why changes were refused."""


class _Stored(msgspec.Struct, frozen=True):
    decision_id: str


class _Domain(msgspec.Struct, frozen=True):
    closed_tick: int
    apps: dict[str, _Stored]


class _Unreachable(Exception):  # noqa: N818  the target is, for now
    """No answer, or one that asks to retry."""


class _Rejected(Exception):  # noqa: N818  the write was
    """An answer that a retry would not change."""


class SimulatedTarget:
    """Writes to the simulated cluster over HTTP, with retries.

    The first write of a process reads back the stored decisions: what an earlier process wrote
    before it died is not written again.
    """

    def __init__(self, url: str, timeout_s: float, give_up_s: float) -> None:
        self._url, self._give_up = url.rstrip("/"), give_up_s
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._session: aiohttp.ClientSession | None = None
        self._read_back: set[str] = set()
        """Domains whose stored decisions this process has read."""

    async def carry_out(self, write: Write) -> Written:
        """The target's answers; all changes count as refused when it rejects or never answers."""
        reason = f"{self._url} does not answer"
        try:
            async with asyncio.timeout(self._give_up):
                while True:
                    try:
                        return await self._write(write)
                    except _Unreachable as error:
                        reason = str(error)
                    await asyncio.sleep(_RETRY_S)
        except _Rejected as error:
            reason = str(error)
        except TimeoutError:
            pass  # `reason` is that of the last attempt
        # A result, not an exception: an unreachable target must not stop the service.
        log.warning("tick %d of %s is held: %s", write.tick, write.domain, reason)
        return _refused(write, reason)

    async def close(self) -> None:
        """Disconnect."""
        if self._session is not None:
            await self._session.close()

    async def _write(self, write: Write) -> Written:
        repeats = await self._repeats(write)
        left = [change for change in write.changes if change.app not in repeats]
        # An empty write is sent too: it closes the tick.
        path = f"/v1/domains/{write.domain}/ticks/{write.tick}"
        body = msgspec.json.encode({"changes": left})
        answer = msgspec.json.decode(await self._request("PUT", path, body), type=Written)
        # Not before the first answer: until then an earlier process may have written unnoticed.
        self._read_back.add(write.domain)
        return msgspec.structs.replace(answer, answers={**repeats, **answer.answers})

    async def _repeats(self, write: Write) -> dict[str, Answer]:
        """Changes that an earlier process has made already."""
        if write.domain in self._read_back or not write.changes:
            return {}
        body = await self._request("GET", f"/v1/domains/{write.domain}", b"")
        stored = msgspec.json.decode(body, type=_Domain).apps
        return {change.app: "repeat" for change in write.changes if _is_stored(change, stored)}

    async def _request(self, method: str, path: str, body: bytes) -> bytes:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=self._timeout)
        try:
            async with self._session.request(method, self._url + path, data=body) as response:
                text = await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _Unreachable(f"{self._url} does not answer ({error})") from error
        # The server failed, so a retry may help; a request that it rejects stays rejected.
        if response.status >= 500:
            raise _Unreachable(f"{self._url} answers {response.status}")
        if response.status >= 400:
            raise _Rejected(f"{method} {path}: {response.status} {text.decode(errors='replace')}")
        return text


def _is_stored(change: Change, stored: dict[str, _Stored]) -> bool:
    return change.app in stored and stored[change.app].decision_id == change.decision_id


def _refused(write: Write, detail: str) -> Written:
    answers: dict[str, Any] = {change.app: "refused" for change in write.changes}
    return Written(domain=write.domain, tick=write.tick, answers=answers, detail=detail)

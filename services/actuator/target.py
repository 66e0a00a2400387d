"""The target: what it has now, and writes to it; its port, and the simulated cluster behind HTTP.

A target stores each app's last decision id with its numbers and journals every write, so a
decision that arrives again changes nothing. A change names the numbers it was decided against: if
the target has others by then, it refuses the change.
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

Answer = Literal["applied", "repeat", "superseded", "conflict", "unknown", "refused"]
"""applied: changed now. repeat: the same decision had changed it before. superseded: a newer
decision had changed it before. conflict: its numbers are not those that the change was decided
against. unknown: the app does not exist; the simulated cluster refuses such an app instead.
refused: the target rejected the change or could not be reached."""


class Numbers(msgspec.Struct, frozen=True):
    """What can be set on an app."""

    replicas: Annotated[int, Meta(ge=0)]
    cpu_request: Annotated[int, Meta(ge=0, description="millicores per pod")]
    memory_request: Annotated[int, Meta(ge=0, description="MiB per pod")]


class Present(msgspec.Struct, frozen=True, kw_only=True):
    """What the target has of one app now."""

    replicas: int
    cpu_request: int
    memory_request: int
    ready: int
    starting: int
    pending: int


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
    present: Present


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
        self._began: dict[str, tuple[int, float]] = {}
        """By domain: the tick at work, and when its first effect began."""

    async def carry_out(self, effect: Read | Write) -> Reading | Written:
        """The target's answer.

        When it rejects or never answers, nothing was read, or all changes count as refused.
        """
        reason = f"{self._url} does not answer"
        try:
            async with asyncio.timeout_at(self._deadline(effect)):
                while True:
                    try:
                        if isinstance(effect, Read):
                            return await self._read(effect)
                        return await self._write(effect)
                    except _Unreachable as error:
                        reason = str(error)
                    await asyncio.sleep(_RETRY_S)
        except _Rejected as error:
            reason = str(error)
        except TimeoutError:
            pass  # `reason` is that of the last attempt
        # A result, not an exception: an unreachable target must not stop the service.
        log.warning("tick %d of %s is held: %s", effect.tick, effect.domain, reason)
        if isinstance(effect, Read):
            return Reading(domain=effect.domain, tick=effect.tick, apps=None)
        return _refused(effect, reason)

    async def close(self) -> None:
        """Disconnect."""
        if self._session is not None:
            await self._session.close()

    def _deadline(self, effect: Read | Write) -> float:
        """One limit for reading and writing a tick, of which reading gets half."""
        now = asyncio.get_running_loop().time()
        tick, began = self._began.get(effect.domain, (-1, now))
        if tick != effect.tick or isinstance(effect, Read):
            began = now
        self._began[effect.domain] = effect.tick, began
        return began + self._give_up / (2 if isinstance(effect, Read) else 1)

    async def _read(self, read: Read) -> Reading:
        found = await self._domain(read.domain)
        present = {app: stored.present for app, stored in found.apps.items()}
        return Reading(domain=read.domain, tick=read.tick, apps=present)

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
        stored = (await self._domain(write.domain)).apps
        return {change.app: "repeat" for change in write.changes if _is_stored(change, stored)}

    async def _domain(self, domain: str) -> _Domain:
        body = await self._request("GET", f"/v1/domains/{domain}", b"")
        return msgspec.json.decode(body, type=_Domain)

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

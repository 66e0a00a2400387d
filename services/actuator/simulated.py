"""The simulated cluster as a target, over HTTP.

The first write of a process reads back what was asked last: what a process before this one
wrote, and died before it could say so, is not written again.
"""

import asyncio
import logging
from typing import Any, Final

import aiohttp
import msgspec

from services.actuator.target import Answer, Change, Write, Written

log = logging.getLogger(__name__)

_PAUSE_S: Final = 0.2
"""Between attempts at a target that does not answer."""


class _Stored(msgspec.Struct, frozen=True):
    decision_id: str


class _Domain(msgspec.Struct, frozen=True):
    closed_tick: int
    apps: dict[str, _Stored]


class _Unreachable(Exception):  # noqa: N818  the target is, for now
    """No answer, or one that says to come again."""


class _Rejected(Exception):  # noqa: N818  the write was
    """An answer that would be the same the next time."""


class SimulatedTarget:
    """Writes, reads back, and tries again as long as it makes sense."""

    def __init__(self, url: str, timeout_s: float, give_up_s: float) -> None:
        self._url, self._give_up = url.rstrip("/"), give_up_s
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._session: aiohttp.ClientSession | None = None
        self._read: set[str] = set()
        """Domains that were read back by this process."""

    async def carry_out(self, write: Write) -> Written:
        """The target's answer; where it has none, or says no, nothing is said to be done."""
        why = f"{self._url} does not answer"
        try:
            async with asyncio.timeout(self._give_up):
                while True:
                    try:
                        return await self._write(write)
                    except _Unreachable as error:
                        why = str(error)
                    await asyncio.sleep(_PAUSE_S)
        except _Rejected as error:
            why = str(error)
        except TimeoutError:
            pass  # `why` is what the last attempt met
        log.warning("tick %d of %s is held: %s", write.tick, write.domain, why)
        return _refused(write, why)

    async def close(self) -> None:
        """Hang up."""
        if self._session is not None:
            await self._session.close()

    async def _write(self, write: Write) -> Written:
        repeats = await self._repeats(write)
        left = [change for change in write.changes if change.app not in repeats]
        # An empty write is made, too: it closes the tick.
        path = f"/v1/domains/{write.domain}/ticks/{write.tick}"
        body = msgspec.json.encode({"changes": left})
        answer = msgspec.json.decode(await self._ask("PUT", path, body), type=Written)
        self._read.add(write.domain)
        return msgspec.structs.replace(answer, answers={**repeats, **answer.answers})

    async def _repeats(self, write: Write) -> dict[str, Answer]:
        """Changes that an earlier process has made already."""
        if write.domain in self._read or not write.changes:
            return {}
        body = await self._ask("GET", f"/v1/domains/{write.domain}", b"")
        there = msgspec.json.decode(body, type=_Domain).apps
        return {change.app: "repeat" for change in write.changes if _is_there(change, there)}

    async def _ask(self, method: str, path: str, body: bytes) -> bytes:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=self._timeout)
        try:
            async with self._session.request(method, self._url + path, data=body) as answer:
                text = await answer.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _Unreachable(f"{self._url} does not answer ({error})") from error
        if answer.status >= 500:
            raise _Unreachable(f"{self._url} answers {answer.status}")
        if answer.status >= 400:
            raise _Rejected(f"{method} {path}: {answer.status} {text.decode(errors='replace')}")
        return text


def _is_there(change: Change, stored: dict[str, _Stored]) -> bool:
    return change.app in stored and stored[change.app].decision_id == change.decision_id


def _refused(write: Write, detail: str) -> Written:
    answers: dict[str, Any] = {change.app: "refused" for change in write.changes}
    return Written(domain=write.domain, tick=write.tick, answers=answers, detail=detail)

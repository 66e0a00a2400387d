"""The simulated cluster as a target, over HTTP.

The first write of a process reads back what was asked last: what a process before this one
wrote, and died before it could say so, is not written again.
"""

import asyncio
import logging
from typing import Any, Final

import aiohttp
import msgspec

from services._kit.clock import Clock
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


class SimulatedTarget:
    """Writes, reads back, and tries again as long as it makes sense."""

    def __init__(self, url: str, timeout_s: float, give_up_s: float, clock: Clock) -> None:
        self._url, self._give_up, self._clock = url.rstrip("/"), give_up_s, clock
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._session: aiohttp.ClientSession | None = None
        self._read: set[str] = set()
        """Domains that were read back by this process."""

    async def carry_out(self, write: Write) -> Written:
        """The target's answer, or that it could not be reached: then nothing is said to be done."""
        until = self._clock.now() + self._give_up
        while True:
            try:
                return await self._write(write)
            except _Unreachable as error:
                if self._clock.now() >= until:
                    log.warning("tick %d of %s is held: %s", write.tick, write.domain, error)
                    return _refused(write, str(error))
            await asyncio.sleep(_PAUSE_S)

    async def _write(self, write: Write) -> Written:
        known = await self._repeats(write)
        left = [change for change in write.changes if change.app not in known]
        # An empty write is made, too: it closes the tick.
        path = f"/v1/domains/{write.domain}/ticks/{write.tick}"
        body = msgspec.json.encode({"changes": left})
        answer = msgspec.json.decode(await self._ask("PUT", path, body), type=Written)
        self._read.add(write.domain)
        return msgspec.structs.replace(answer, answers={**known, **answer.answers})

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
            raise RuntimeError(f"{method} {path}: {answer.status} {text.decode(errors='replace')}")
        return text

    async def close(self) -> None:
        """Let go of the connections."""
        if self._session is not None:
            await self._session.close()


def _is_there(change: Change, stored: dict[str, _Stored]) -> bool:
    return change.app in stored and stored[change.app].decision_id == change.decision_id


def _refused(write: Write, detail: str) -> Written:
    answers: dict[str, Any] = {change.app: "refused" for change in write.changes}
    return Written(domain=write.domain, tick=write.tick, answers=answers, detail=detail)

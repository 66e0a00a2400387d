"""A simulated cluster as a source, over its HTTP API."""

from collections.abc import Sequence
from typing import Final, TypeVar

import aiohttp
import msgspec

from schemas.app_declared import AppDeclared
from schemas.demand_backfilled import DemandBackfilled
from schemas.event_scheduled import EventScheduled
from schemas.metrics_sampled import MetricsSampled
from schemas.pool_observed import PoolObserved
from services._kit.http import MALFORMED, request
from services.collector.collect import Observed, SourceDown, SourceRestarted

T = TypeVar("T")

_WAIT_S: Final = 30.0
"""Long-poll timeout: after this long without a newer tick the cluster answers 204."""
_TIMEOUT_S: Final = 15.0
"""Timeout of a request; for a long poll, in addition to its wait."""
_NO_NEWER: Final = 204
_CONFLICT: Final = 409


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Body of /v1/observation."""

    tick: int
    finished: bool
    declared: list[AppDeclared]
    sampled: list[MetricsSampled]
    pools: list[PoolObserved]


class SimulatedSource:
    """One simulated cluster."""

    name = "simcluster"

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, url.rstrip("/")

    async def inventory(self) -> Sequence[AppDeclared]:
        """Every present and removed app."""
        return await self._get("/v1/inventory", list[AppDeclared])

    async def calendar(self) -> Sequence[EventScheduled]:
        """Announced events."""
        return await self._get("/v1/calendar", list[EventScheduled])

    async def history(self) -> Sequence[DemandBackfilled]:
        """Traffic before tick 0."""
        return await self._get("/v1/history", list[DemandBackfilled])

    async def observe(self, after: int) -> Observed | None:
        """The newest tick, as soon as it is newer than `after`."""
        query = {"after": str(after), "wait": str(_WAIT_S)}
        status, body = await self._request("/v1/observation", query, _WAIT_S + _TIMEOUT_S)
        if status == _NO_NEWER:
            return None
        if status == _CONFLICT:
            raise SourceRestarted(f"{self._url} has not reached tick {after}")
        answer = _decoded(status, body, _Answer)
        # Declarations first: the collector publishes in this order.
        events = [*answer.declared, *answer.sampled, *answer.pools]
        return Observed(answer.tick, events, answer.finished)

    async def close(self) -> None:
        """Nothing to do: the session is the process's."""

    async def _get(self, path: str, kind: type[T]) -> T:
        return _decoded(*await self._request(path, {}, _TIMEOUT_S), kind)

    async def _request(
        self, path: str, query: dict[str, str], timeout_s: float
    ) -> tuple[int, bytes]:
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        try:
            return await request(
                self._session, "GET", self._url + path, timeout=timeout, params=query
            )
        except (aiohttp.ClientError, TimeoutError) as error:
            raise SourceDown(f"{self._url}{path}: {type(error).__name__} {error}") from error


def _decoded(status: int, body: bytes, kind: type[T]) -> T:
    if status != 200:
        raise SourceDown(f"HTTP {status}: {body[:200].decode(errors='replace')}")
    try:
        return msgspec.json.decode(body, type=kind)
    except MALFORMED as error:
        raise SourceDown(f"invalid response: {error}") from error

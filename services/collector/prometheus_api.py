"""The HTTP API of Prometheus: one query, all series of its result."""

import math
from collections.abc import Sequence
from typing import Annotated, Final, Literal

import aiohttp
import msgspec
from msgspec import Meta

from services._kit.http import MALFORMED, request
from services.collector.collect import SourceDown

Point = tuple[float, str]
"""Unix time, and a number as text: JSON has no NaN."""


class Series(msgspec.Struct, frozen=True):
    """One series of a response: at one time, or over a range."""

    metric: dict[str, str]
    value: Point | None = None
    values: Annotated[list[Point], Meta(max_length=11_000)] = []


class _Data(msgspec.Struct, frozen=True):
    kind: Literal["vector", "matrix"] = msgspec.field(name="resultType")
    result: list[Series]


class _Response(msgspec.Struct, frozen=True):
    status: Literal["success"]
    data: _Data


_DECODER: Final = msgspec.json.Decoder(_Response)


class Prometheus:
    """A server. Any invalid response raises SourceDown; it never becomes a number."""

    def __init__(self, session: aiohttp.ClientSession, url: str, timeout_s: float) -> None:
        self._session, self._url = session, url.rstrip("/")
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)

    async def at(self, query: str, time: float, lookback_s: float) -> Sequence[Series]:
        """Series of a query at one time.

        Servers before 2.44 ignore the lookback and use their own, of minutes; so queries on gauges
        limit the age of samples themselves.
        """
        return await self._request(
            "/api/v1/query",
            {"query": query, "time": f"{time:.3f}", "lookback_delta": f"{lookback_s:g}s"},
        )

    async def over(self, query: str, start: float, end: float, step_s: int) -> Sequence[Series]:
        """Series of a query over a range of at most 11,000 steps, the limit of Prometheus."""
        times = {"start": f"{start:.0f}", "end": f"{end:.0f}", "step": str(step_s)}
        return await self._request("/api/v1/query_range", {"query": query, **times})

    async def _request(self, path: str, form: dict[str, str]) -> Sequence[Series]:
        # POST a form: queries may be longer than a URL can be.
        try:
            status, body = await request(
                self._session, "POST", self._url + path, timeout=self._timeout, data=form
            )
        except (aiohttp.ClientError, TimeoutError) as error:
            raise SourceDown(f"{self._url}: {type(error).__name__} {error}") from error
        if status != 200:
            raise SourceDown(f"HTTP {status}: {body[:200].decode(errors='replace')}")
        try:
            return _DECODER.decode(body).data.result
        except MALFORMED as error:
            raise SourceDown(f"invalid response: {error}") from error


def number(text: str) -> float | None:
    """A sample; None for NaN, infinite and negative numbers, which are no measurements."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None

"""Prometheus' HTTP API: one question, all series of its answer."""

import math
from collections.abc import Sequence
from typing import Annotated, Final, Literal

import aiohttp
import msgspec
from msgspec import Meta

from services.collector.source import SourceDown

Point = tuple[float, str]
"""Unix time, and a number as text: JSON has no NaN."""


class Series(msgspec.Struct, frozen=True):
    """One series of an answer: at one time, or over a range."""

    metric: dict[str, str]
    value: Point | None = None
    values: Annotated[list[Point], Meta(max_length=11_000)] = []


class _Data(msgspec.Struct, frozen=True):
    kind: Literal["vector", "matrix"] = msgspec.field(name="resultType")
    result: list[Series]


class _Answer(msgspec.Struct, frozen=True):
    status: Literal["success"]
    data: _Data


_DECODER: Final = msgspec.json.Decoder(_Answer)


class Prometheus:
    """A server. Whatever is wrong with an answer is SourceDown, and never a number."""

    def __init__(self, session: aiohttp.ClientSession, url: str, patience_s: float) -> None:
        self._session, self._url = session, url.rstrip("/")
        self._patience = aiohttp.ClientTimeout(total=patience_s)

    async def at(self, query: str, time: float, lookback_s: float) -> Sequence[Series]:
        """The query's series at one time.

        Servers before 2.44 do not know the lookback and take their own, of minutes; queries on
        gauges say themselves how old a sample may be.
        """
        return await self._ask(
            "/api/v1/query",
            {"query": query, "time": f"{time:.3f}", "lookback_delta": f"{lookback_s:g}s"},
        )

    async def over(self, query: str, start: float, end: float, step_s: int) -> Sequence[Series]:
        """The query's series over a range of at most 11,000 steps, which is Prometheus' limit."""
        wanted = {"query": query, "start": f"{start:.0f}", "end": f"{end:.0f}", "step": str(step_s)}
        return await self._ask("/api/v1/query_range", wanted)

    async def _ask(self, path: str, wanted: dict[str, str]) -> Sequence[Series]:
        # As a form: queries may be longer than an address can be.
        try:
            async with self._session.post(
                self._url + path, data=wanted, timeout=self._patience
            ) as response:
                status, body = response.status, await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise SourceDown(f"{self._url}: {type(error).__name__} {error}") from error
        if status != 200:
            raise SourceDown(f"answered {status}: {body[:200].decode(errors='replace')}")
        try:
            return _DECODER.decode(body).data.result
        except msgspec.DecodeError as error:
            raise SourceDown(f"answered what is no result: {error}") from error


def number(text: str) -> float | None:
    """A sample, or None where it is none: NaN, infinite and negative numbers measure nothing."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None

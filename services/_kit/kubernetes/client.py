"""Requests to an API server: authenticated, within a budget of calls, and read as far as needed.

A caller decides what an answer means and whether to ask again: only it knows whether a request
may be repeated.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, Generic, TypeVar

import aiohttp
import msgspec

from services._kit.http import MALFORMED, client_session, exchange
from services._kit.kubernetes.credentials import Access

log = logging.getLogger(__name__)

T = TypeVar("T")

_PAGE: Final = 500
"""Objects per page of a list, as kubectl asks for them."""
_LONGEST_PAUSE_S: Final = 30.0
_MOST_WORDS: Final = 300
"""Characters that are kept of the server's message."""


class Unreachable(Exception):  # noqa: N818  the server is, for now
    """No answer: it is unknown whether the request was carried out."""


class Denied(Exception):  # noqa: N818  the request was
    """An answer that a retry would not change."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"the API server answers {status}: {message}")
        self.status = status


class _Status(msgspec.Struct, frozen=True):
    message: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Answer:
    """What the API server answered, whatever the status."""

    status: int
    body: bytes
    retry_after_s: float = 0.0
    """Pause that the server asks for."""

    @property
    def message(self) -> str:
        """The server's words about a failure, cut to a line."""
        try:
            text = msgspec.json.decode(self.body, type=_Status).message
        except MALFORMED:
            text = self.body[:_MOST_WORDS].decode(errors="replace")
        return " ".join(text.split())[:_MOST_WORDS]

    def decoded(self, kind: type[T]) -> T:
        """The body; a malformed one counts as no answer."""
        try:
            return msgspec.json.decode(self.body, type=kind)
        except MALFORMED as error:
            raise Unreachable(f"malformed answer ({error!s:.200})") from error


class _ListMeta(msgspec.Struct, frozen=True, rename={"resume": "continue"}):
    resource_version: str = msgspec.field(default="", name="resourceVersion")
    resume: str = ""


class _Page(msgspec.Struct, Generic[T], frozen=True):
    items: list[T]
    metadata: _ListMeta = _ListMeta()


@dataclass(frozen=True)
class Listing(Generic[T]):
    """A list, or a page of one."""

    items: list[T]
    version: str
    """Where a watch of the same objects begins."""
    bytes_read: int


@dataclass
class Calls:
    """A budget of calls per second, with bursts of a second's worth."""

    per_second: float
    _next: float = field(default=0.0, init=False)

    async def take(self) -> None:
        """Wait for the turn of one call."""
        now = asyncio.get_running_loop().time()
        self._next = max(self._next, now - 1.0) + 1.0 / self.per_second
        if self._next > now:
            await asyncio.sleep(self._next - now)


class KubernetesApi:
    """One API server. Connects with the first request."""

    def __init__(self, access: Access, timeout_s: float, calls_per_second: float) -> None:
        self._access = access
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._calls = Calls(calls_per_second)
        self._session: aiohttp.ClientSession | None = None

    @property
    def server(self) -> str:
        """URL of the API server."""
        return self._access.server

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """The answer to one request; raises Unreachable if there is none."""
        await self._calls.take()
        try:
            found = await exchange(
                self.session(),
                method,
                self._access.server + path,
                timeout=self._timeout,
                params=query,
                data=body or None,
                headers={**self.authorization(), **(headers or {})},
                ssl=self._access.tls or True,
            )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            # Its text names addresses; the kind is enough.
            raise Unreachable(f"no answer ({type(error).__name__})") from error
        if found.status == HTTPStatus.UNAUTHORIZED:
            self._access.token.refused()
        return Answer(found.status, found.body, _seconds(found.headers.get("Retry-After", "")))

    async def get(self, path: str, kind: type[T]) -> T | None:
        """One object; None if there is none."""
        answer = await self.request("GET", path)
        if answer.status == HTTPStatus.NOT_FOUND:
            return None
        return _checked(answer).decoded(kind)

    async def list(
        self, path: str, kind: Any, query: Mapping[str, str] | None = None
    ) -> Listing[Any]:
        """Every object of a list."""
        items: list[Any] = []
        version, size = "", 0
        async for page in self.pages(path, kind, query):
            items += page.items
            version, size = page.version, size + page.bytes_read
        return Listing(items, version, size)

    async def pages(
        self, path: str, kind: Any, query: Mapping[str, str] | None = None
    ) -> AsyncIterator[Listing[Any]]:
        """A list page by page, so that a large one need not be in memory as a whole."""
        # Each page is of the state of the first one, so what is read is consistent.
        resume = ""
        while True:
            page_query = {**(query or {}), "limit": str(_PAGE)}
            if resume:
                page_query["continue"] = resume
            answer = _checked(await self.request("GET", path, page_query))
            page = answer.decoded(_Page[kind])
            yield Listing(page.items, page.metadata.resource_version, len(answer.body))
            resume = page.metadata.resume
            if not resume:
                return

    @asynccontextmanager
    async def stream(
        self, path: str, query: Mapping[str, str], silent_s: float
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer that goes on; raises when nothing arrives for `silent_s`."""
        await self._calls.take()
        async with self.session().get(
            self._access.server + path,
            params=query,
            headers=self.authorization(),
            ssl=self._access.tls or True,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=silent_s, sock_read=silent_s),
            allow_redirects=False,
        ) as response:
            if response.status == HTTPStatus.UNAUTHORIZED:
                self._access.token.refused()
            yield response

    async def close(self) -> None:
        """Disconnect."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def session(self) -> aiohttp.ClientSession:
        """The connections, opened when they are first needed."""
        if self._session is None:
            self._session = client_session()
        return self._session

    def authorization(self) -> dict[str, str]:
        """Our header of identity; empty with a client certificate."""
        token = self._access.token.current()
        return {"Authorization": f"Bearer {token}"} if token else {}


def _checked(answer: Answer) -> Answer:
    """The answer to a read, if it is one."""
    if answer.status == HTTPStatus.OK:
        return answer
    passing = {HTTPStatus.UNAUTHORIZED, HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
    # 410: the list took longer than the server keeps its state; it begins again.
    if answer.status >= 500 or answer.status in {*passing, HTTPStatus.GONE}:
        raise Unreachable(f"the API server answers {answer.status}")
    raise Denied(answer.status, answer.message)


def _seconds(text: str) -> float:
    # It may also be a date, which API servers do not send.
    return min(float(text), _LONGEST_PAUSE_S) if text.isascii() and text.isdigit() else 0.0


def encoded(document: Any) -> bytes:
    """JSON for a request."""
    return json.dumps(document, separators=(",", ":")).encode()

"""A mirror of a list of objects, kept current by a watch.

A watch is ended by the server after `_WATCH_S` and begun again, so a connection that died silently
is noticed within seconds: what was not heard of for longer than a caller accepts is not current.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, Generic, Literal, TypeVar

import aiohttp
import msgspec

from services._kit.clock import Clock
from services._kit.http import MALFORMED
from services._kit.kubernetes.client import Denied, KubernetesApi, Unreachable
from services._kit.kubernetes.objects import ObjectMeta

log = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")

_WATCH_S: Final = 10
_SILENT_S: Final = 15.0
"""Without a byte for longer than the watch may last, the connection is dead."""
_RELIST_S: Final = 3600.0
"""A watch that lost an event would never notice, so everything is listed again beside it."""
_MOST_PAUSE_S: Final = 10.0
_LARGEST_EVENT: Final = 4 * 1024 * 1024
"""Bytes; the API server stores at most 1.5 MiB of an object."""


class _Event(msgspec.Struct, frozen=True):
    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: msgspec.Raw


class _Versioned(msgspec.Struct, frozen=True):
    metadata: ObjectMeta


class _Bookmark(msgspec.Struct, frozen=True):
    metadata: "_Version"


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str


class _Expired(Exception):  # noqa: N818  the version has
    """The server no longer has the version: list again."""


class Mirror(Generic[R]):
    """Objects of one list by uid, each reduced to what is needed of it; None leaves it out."""

    def __init__(
        self,
        api: KubernetesApi,
        path: str,
        kind: type[Any],
        reduce: Callable[[Any], R | None],
        clock: Clock,
        query: Mapping[str, str] | None = None,
    ) -> None:
        self._api, self._path, self._kind = api, path, kind
        self._reduce, self._clock, self._query = reduce, clock, query or {}
        self.objects: dict[str, R] = {}
        """Read it, and don't change it."""
        self.bytes_read = 0
        self.listed = asyncio.Event()
        """Set once the first list is complete."""
        self._heard_at: float | None = None
        self._listed_at = 0.0
        self._version = ""
        self._listing: asyncio.Task[None] | None = None
        """Lists everything again while the watch goes on."""
        self._told: dict[str, R | None] | None = None
        """By uid, what the watch said since that began; None where an object is left out."""

    def is_current(self, ttl_s: float) -> bool:
        """Whether the server confirmed the objects within this time."""
        return self._heard_at is not None and self._clock.now() - self._heard_at <= ttl_s

    async def run(self) -> None:
        """Keep it current until cancelled."""
        try:
            await self._follow()
        finally:
            await self._stop_listing()

    async def _follow(self) -> None:
        failures = 0
        while True:
            try:
                await self._advance()
                failures = 0
            except _Expired:
                self._version = ""
            except (Unreachable, Denied) as error:
                failures += 1
                log.warning("%s: %s", self._path, error)
                longest = min(0.5 * 2 ** min(failures, 10), _MOST_PAUSE_S)
                await asyncio.sleep(longest * (0.5 + 0.5 * random.random()))

    async def _advance(self) -> None:
        if not self._version:
            await self._stop_listing()
            await self._list()
        elif self._listing is not None:
            if self._listing.done():
                await self._listing
                self._listing = None
        elif self._clock.now() - self._listed_at > _RELIST_S:
            self._listing = asyncio.create_task(self._list_again())
        query = {
            **self._query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(_WATCH_S),
        }
        async for line in self._lines(query):
            self._take(line)
            self._heard_at = self._clock.now()
        # It ended as it should: nothing that happened before is missing.
        self._heard_at = self._clock.now()

    async def _list(self) -> None:
        began = self._clock.now()
        self.objects, self._version = await self._read()
        self._listed_at = self._heard_at = began
        self.listed.set()

    async def _list_again(self) -> None:
        """Replace the objects by listed ones, without a gap: a large list takes long."""
        began, self._told = self._clock.now(), {}
        try:
            objects, _ = await self._read()
            # What the watch said meanwhile may be newer than the list. Where it is older, the watch
            # will say so: it goes on from its own version.
            for uid, present in self._told.items():
                _put(objects, uid, present)
            self.objects, self._listed_at = objects, began
        except (Unreachable, Denied) as error:
            # Again after the present watch.
            log.warning("%s: listing it again: %s", self._path, error)
        finally:
            self._told = None

    async def _stop_listing(self) -> None:
        if self._listing is not None:
            self._listing.cancel()
            await asyncio.gather(self._listing, return_exceptions=True)
            self._listing = None

    async def _read(self) -> tuple[dict[str, R], str]:
        """All objects, and their version."""
        objects, version = dict[str, R](), ""
        async for page in self._api.pages(self._path, self._kind, self._query):
            for one in page.items:
                _put(objects, one.metadata.uid, self._reduce(one))
            self.bytes_read += page.bytes_read
            version = page.version
        return objects, version

    async def _lines(self, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        buffer = bytearray()
        try:
            async with self._api.stream(self._path, query, _SILENT_S) as response:
                if response.status == HTTPStatus.GONE:
                    raise _Expired
                if response.status != HTTPStatus.OK:
                    raise Unreachable(f"the API server answers {response.status} to a watch")
                async for chunk in response.content.iter_any():
                    self.bytes_read += len(chunk)
                    buffer += chunk
                    *lines, rest = buffer.split(b"\n")
                    buffer = bytearray(rest)
                    for line in lines:
                        yield bytes(line)
                    if len(buffer) > _LARGEST_EVENT:
                        raise Unreachable("an event of a watch has no end")
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unreachable(f"the watch broke ({type(error).__name__})") from error

    def _take(self, line: bytes) -> None:
        try:
            event = msgspec.json.decode(line, type=_Event)
            if event.type == "ERROR":
                # Nearly always 410, and a new list mends everything else as well.
                raise _Expired
            if event.type == "BOOKMARK":
                bookmark = msgspec.json.decode(event.object, type=_Bookmark)
                self._version = bookmark.metadata.resource_version
                return
            meta = msgspec.json.decode(event.object, type=_Versioned).metadata
            present = None
            if event.type != "DELETED":
                present = self._reduce(msgspec.json.decode(event.object, type=self._kind))
            _put(self.objects, meta.uid, present)
            if self._told is not None:
                self._told[meta.uid] = present
            self._version = meta.resource_version
        except MALFORMED as error:
            raise Unreachable(f"malformed event of a watch ({error!s:.200})") from error


def _put(objects: dict[str, R], uid: str, present: R | None) -> None:
    if present is None:
        objects.pop(uid, None)
    else:
        objects[uid] = present

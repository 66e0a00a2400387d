"""Requests to other servers, which may be wrong or hostile.

No answer leads to another host, fills the memory or stops the process.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import aiohttp
import msgspec

LARGEST_ANSWER: Final = 64 * 1024 * 1024
"""Bytes, inflated. The inventory of 62,000 apps has half of it."""
MALFORMED: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding JSON raises, whatever it is."""


def client_session() -> aiohttp.ClientSession:
    """A session that keeps no cookies: nobody needs them, and a server could send new ones."""
    return aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())


class Exchange(NamedTuple):
    """An answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


async def request(
    session: aiohttp.ClientSession,
    method: str,
    url: str,
    *,
    timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109  aiohttp's own
    **options: Any,
) -> tuple[int, bytes]:
    """Status and body of an answer, see `exchange`."""
    status, _, body = await exchange(session, method, url, timeout=timeout, **options)
    return status, body


async def exchange(
    session: aiohttp.ClientSession,
    method: str,
    url: str,
    *,
    timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109  aiohttp's own
    **options: Any,
) -> Exchange:
    """The answer. Raises ClientError and TimeoutError; a redirect is an answer like others."""
    body = bytearray()
    async with session.request(
        method, url, timeout=timeout, allow_redirects=False, **options
    ) as response:
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > LARGEST_ANSWER:
                raise aiohttp.ClientPayloadError(f"more than {LARGEST_ANSWER:,} bytes")
    return Exchange(response.status, response.headers, bytes(body))

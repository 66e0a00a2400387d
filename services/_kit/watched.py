"""A file that is read once, at the start: who uses it ends when it changes."""

import asyncio
import logging
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

_PAUSE_S: Final = 10.0


class Watched:
    """The contents of a file as they were at the start."""

    def __init__(self, path: str, pause_s: float = _PAUSE_S) -> None:
        self._path, self._pause = path, pause_s
        self._first: bytes | None = None
        self._first = self._read()

    async def changed(self, stop: asyncio.Event) -> None:
        """Set `stop` when the file is another one, is gone or came."""
        while self._read() == self._first:  # noqa: ASYNC110  no event tells of it
            await asyncio.sleep(self._pause)
        log.warning("%s has changed: ending, to start with what it says now", self._path)
        stop.set()

    def _read(self) -> bytes | None:
        try:
            return Path(self._path).read_bytes() if self._path else None
        except FileNotFoundError:
            return None
        except OSError:
            # Not readable for a moment, which says nothing about it.
            return self._first

"""Logs as JSON lines on stderr, with the ids of the event that caused a line.

On a terminal the lines are formatted for people instead.
"""

import json
import logging
import re
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from typing import Any, Final

from schemas.fields import Event
from services._kit.clock import rfc3339

_IDS: Final = ("trace_id", "decision_id", "domain", "tick")
# A context variable: tasks handle events of several keys at once, in one thread.
SPARSE_S: Final = 30.0
"""Between two lines of one logger of a library."""
_HARMLESS: Final = re.compile(r"Missing sensor state for rebalance")
"""Faust's warning at the first rebalance: its monitor was not there yet, and we use none."""
_OURS: Final = frozenset({"services", "models", "schemas", "__main__"})
_USERINFO: Final = re.compile(r"(?<=://)[^\s\"'<>]*@")
"""User and password of a URL. Greedy: a password may contain an @ or a slash by mistake."""
_ids: ContextVar[dict[str, Any]] = ContextVar("ids")


def without_userinfo(text: str) -> str:
    """The text with user and password removed from every URL in it."""
    return _USERINFO.sub("***@", text)


@contextmanager
def tracing(event: Event) -> Iterator[None]:
    """Add the ids of an event to the lines logged inside."""
    found = {name: getattr(event, name) for name in _IDS if getattr(event, name, "") != ""}
    token = _ids.set(found)
    try:
        yield
    finally:
        _ids.reset(token)


class JsonLines(logging.Formatter):
    """One JSON object per line."""

    def __init__(self, service: str, instance: str) -> None:
        super().__init__()
        # A pod or a container has its own host name.
        self._constant = {"service": service, "instance": instance or socket.gethostname()}

    def format(self, record: logging.LogRecord) -> str:
        """One line, with the fields of `extra={"fields": {...}}`."""
        line: dict[str, Any] = {
            "time": rfc3339(record.created),
            "level": record.levelname.lower(),
            **self._constant,
            "logger": record.name,
            "message": record.getMessage(),
            **_ids.get({}),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return without_userinfo(json.dumps(line, default=str))


class Readable(logging.Formatter):
    """Lines for people."""

    def __init__(self, service: str) -> None:
        super().__init__(f"%(asctime)s %(levelname)-7s {service}: %(message)s", "%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """One line, with the ids at its end."""
        ids = {**_ids.get({}), **getattr(record, "fields", {})}
        text = super().format(record)
        text += "".join(f" {name}={value}" for name, value in ids.items())
        return without_userinfo(text)


class Sparse(logging.Filter):
    """Lets one line per logger and level of a library pass in a while, and counts the others.

    In an outage the Kafka clients log every attempt of every connection, a hundred lines a second.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self._passed_at: dict[tuple[str, int], float] = {}
        self._dropped: Counter[tuple[str, int]] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is logged; lines of our own always are."""
        kind = (record.name, record.levelno)
        if record.name.partition(".")[0] in _OURS:
            return True
        if _HARMLESS.search(record.getMessage()):
            return False
        now = self._now()
        if now - self._passed_at.get(kind, -inf) < SPARSE_S:
            self._dropped[kind] += 1
            return False
        self._passed_at[kind] = now
        if dropped := self._dropped.pop(kind, 0):
            record.fields = {"dropped_lines": dropped}
        return True


def set_up(service: str, instance: str, level: str) -> None:
    """Send every log of this process to stderr; those of libraries from warnings on."""
    out = logging.StreamHandler(sys.stderr)
    terminal = sys.stderr.isatty()
    out.addFilter(Sparse())
    out.setFormatter(Readable(service) if terminal else JsonLines(service, instance))
    root = logging.getLogger()
    root.handlers[:] = [out]
    root.setLevel(logging.WARNING)
    logging.getLogger("services").setLevel(level.upper())

"""Logs as JSON lines on stderr, with the ids of the event that caused a line.

On a terminal the lines are formatted for people instead.
"""

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from schemas.fields import Event
from services._kit.clock import rfc3339

_IDS: Final = ("trace_id", "decision_id", "domain", "tick")
# A context variable: tasks handle events of several keys at once, in one thread.
_ids: ContextVar[dict[str, Any]] = ContextVar("ids")


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
        self._constant = {"service": service, "instance": instance}

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
        return json.dumps(line, default=str)


class Readable(logging.Formatter):
    """Lines for people."""

    def __init__(self, service: str) -> None:
        super().__init__(f"%(asctime)s %(levelname)-7s {service}: %(message)s", "%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """One line, with the ids at its end."""
        ids = {**_ids.get({}), **getattr(record, "fields", {})}
        text = super().format(record)
        return text + "".join(f" {name}={value}" for name, value in ids.items())


def set_up(service: str, instance: str, level: str) -> None:
    """Send every log of this process to stderr; those of libraries from warnings on."""
    out = logging.StreamHandler(sys.stderr)
    terminal = sys.stderr.isatty()
    out.setFormatter(Readable(service) if terminal else JsonLines(service, instance))
    root = logging.getLogger()
    root.handlers[:] = [out]
    root.setLevel(logging.WARNING)
    logging.getLogger("services").setLevel(level.upper())

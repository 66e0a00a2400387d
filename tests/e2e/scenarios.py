"""Scenarios that are short enough for a test to run them to their end."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

FIVE_MINUTES: Final = """
name: five-minutes
shows: Traffic of one domain doubles within a minute.
start: Thu 11:30
length_minutes: 3
warmup_minutes: 2
events:
  - kind: traffic
    name: surge
    target: {domains: [payments]}
    at_minute: 0
    factor: 2.0
    ramp_minutes: 0.8
    hold_minutes: 2
    decay_minutes: 1
"""
TICKS: Final = 30


@contextmanager
def written(text: str) -> Iterator[Path]:
    """A temporary file with the text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scenario.yaml"
        path.write_text(text)
        yield path

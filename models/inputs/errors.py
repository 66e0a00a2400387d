"""Errors a user can mend: each names the place and says what was expected there."""

import difflib
from collections.abc import Iterable
from pathlib import Path


class InputError(ValueError):
    """Bad input from outside; the message is one complete line for a person."""


def input_error(file: Path | str, path: str, expected: str) -> InputError:
    """Build the one line that names the file, the place in it and what belongs there."""
    place = f"{file}: {path}: " if path else f"{file}: "
    return InputError(f"{place}{expected}")


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that somebody may have meant."""
    return next(iter(difflib.get_close_matches(name, known, n=1)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question to put before what is expected; nothing where no known name is close."""
    close = closest(name, known)
    return "" if close is None else f"did you mean {close}? "

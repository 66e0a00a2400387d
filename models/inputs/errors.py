"""Errors that a user can fix: each names the location and what was expected there."""

import difflib
from collections.abc import Iterable
from pathlib import Path


class InputError(ValueError):
    """Bad input; the message is one complete line for the user."""


def input_error(file: Path | str, path: str, expected: str) -> InputError:
    """One line that names the file, the path in it and what belongs there."""
    location = f"{file}: {path}: " if path else f"{file}: "
    return InputError(f"{location}{expected}")


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like `name`; None if none is close."""
    return next(iter(difflib.get_close_matches(name, known, n=1)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The hint "did you mean X?" for an error message; empty if no known name is close."""
    close = closest(name, known)
    return "" if close is None else f"did you mean {close}? "

"""Errors a user can mend: each names the place and says what was expected there."""

from pathlib import Path


class InputError(ValueError):
    """Bad input from outside; the message is one complete line for a person."""


def input_error(file: Path | str, path: str, expected: str) -> InputError:
    """Build the one line that names the file, the place in it and what belongs there."""
    place = f"{file}: {path}: " if path else f"{file}: "
    return InputError(f"{place}{expected}")

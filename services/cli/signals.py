"""Signals that end a command as Ctrl-C does, so that nothing it started is left running."""

import signal
from typing import Final

EXIT_SIGNAL: Final = 128
"""Plus the signal, as shells expect."""


def interrupt_on_signals() -> None:
    """Make a closed terminal or a SIGTERM raise KeyboardInterrupt, with the signal."""

    def interrupt(number: int, _: object) -> None:
        raise KeyboardInterrupt(number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)

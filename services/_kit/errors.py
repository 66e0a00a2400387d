"""Errors of the services, sorted by what happens next."""


class Refused(Exception):  # noqa: N818  an event was refused; nothing is wrong with the service
    """Dead-letter the event: it can be decoded but makes no sense. The state stays as it is.

    A handler raises it from `start`, `handle` or `learn`; from `load` it means that the saved
    state has a wrong form, and the key starts over.
    """

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail


class Unprepared(Exception):  # noqa: N818  it says what is not prepared
    """Stop with one log line: something outside is missing. The line says what to do; restart."""


class BadSettings(ValueError):  # noqa: N818  it names what is bad
    """Stop with one line and status 2: a setting cannot be used. The line says which and why."""


class Stopped(Exception):  # noqa: N818  not an error of this event
    """An earlier event failed, so nothing after it may be handled."""

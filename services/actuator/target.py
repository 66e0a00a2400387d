"""The port to what the actuator writes to: a simulated cluster, Kubernetes.

A target stores the last decision id with the numbers of each app and journals each write, so a
decision that arrives again changes nothing there.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Answer = Literal["applied", "repeat", "superseded", "unknown", "refused"]
"""applied: it is now so. repeat: it was so already, by the same decision. superseded: a newer
decision was there before. unknown: there is no such app. refused: the target said no,
or could not be reached."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers an app is to have from now on."""

    app: str
    replicas: Annotated[int, Meta(ge=0)]
    cpu_request: Annotated[int, Meta(ge=0, description="millicores per pod")]
    memory_request: Annotated[int, Meta(ge=0, description="MiB per pod")]
    decision_id: str


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """All changes of a domain's tick; an empty one closes the tick all the same."""

    domain: str
    tick: int
    changes: list[Change]


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a write."""

    domain: str
    tick: int
    answers: dict[str, Answer]
    """By app."""
    detail: str = ""
    """Why something was refused."""

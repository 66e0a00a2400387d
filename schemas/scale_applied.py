"""What the actuator did with each change of a plan, and why."""

from typing import Annotated, Literal

from schemas.fields import Count, Epoch, Mode, Name, Part, TickEvent, about

Outcome = Literal["applied", "held", "superseded"]


class ScaleApplied(TickEvent, frozen=True, kw_only=True):
    """A place per app whose numbers were to change; a tick without changes has none, and closes."""

    domain: Name
    part: Part = Part()
    decision_id: Annotated[str, about("of the plan")]
    epoch: Epoch
    mode: Mode = "auto"
    apps: list[Name]
    outcomes: list[Outcome]
    reasons: Annotated[list[str], about("of the plan where applied, of the hold where held")]
    replicas: Annotated[list[Count], about("asked of the cluster; what it was, where held")]
    cpu_request: Annotated[list[Count], about("millicores per pod")]
    memory_request: Annotated[list[Count], about("MiB per pod")]
    replicas_before: list[Count]
    cpu_request_before: list[Count] = []
    memory_request_before: list[Count] = []
    breaker: Annotated[str, about("state of the breaker that it went by")] = "closed"
    versions: dict[str, str] = {}

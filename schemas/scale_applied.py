"""What the actuator did with each change of a plan, and why."""

from typing import Annotated, Literal

from schemas.fields import Count, Epoch, MiB, Millicores, Mode, Name, Part, TickEvent, about

Outcome = Literal["applied", "held", "superseded"]


class ScaleApplied(TickEvent, frozen=True, kw_only=True):
    """A place per app whose numbers were to change; a tick without changes has none, and closes."""

    domain: Annotated[Name, about("that the apps belong to")]
    part: Part = Part()
    decision_id: Annotated[str, about("of the plan")]
    epoch: Annotated[Epoch, about("of the budget that the actuator went by; -1 without one")]
    mode: Annotated[Mode, about("that the domain was in")] = "auto"
    apps: Annotated[list[Name], about("whose numbers were to change")]
    outcomes: Annotated[
        list[Outcome], about("superseded: a newer plan came before this one was carried out")
    ]
    reasons: Annotated[list[str], about("of the plan where applied, of the hold where held")]
    replicas: Annotated[list[Count], about("asked of the cluster; what it was, where held")]
    cpu_request: Annotated[list[Millicores], about("per pod, likewise")]
    memory_request: Annotated[list[MiB], about("per pod, likewise")]
    replicas_before: Annotated[list[Count], about("what they were")]
    cpu_request_before: Annotated[list[Millicores], about("what it was")] = []
    memory_request_before: Annotated[list[MiB], about("what it was")] = []
    breaker: Annotated[str, about("state of the breaker that it went by")] = "closed"
    versions: Annotated[dict[str, str], about("of every model and rule behind it")] = {}

"""The audit of a plan: what the actuator did with each change, and why."""

from typing import Annotated, Literal

from schemas.fields import Count, Epoch, MiB, Millicores, Mode, Name, Part, TickEvent, about

Outcome = Literal["applied", "held", "superseded"]


class ScaleApplied(TickEvent, frozen=True, kw_only=True):
    """Parallel columns with one entry per app to change; a tick without changes has no entries."""

    domain: Annotated[Name, about("Domain of the apps.")]
    part: Annotated[Part, about("Position among the parts of the event.")] = Part()
    decision_id: Annotated[str, about("Id of the plan's decision.")]
    epoch: Annotated[Epoch, about("Epoch of the budget the actuator used; -1 without a budget.")]
    mode: Annotated[Mode, about("Mode of the domain.")] = "auto"
    apps: Annotated[list[Name], about("Apps that the plan or an override was to change.")]
    outcomes: Annotated[
        list[Outcome],
        about(
            "`superseded`: a newer plan arrived before this one was applied, or the target had "
            "another decision for the tick or a newer one."
        ),
    ]
    reasons: Annotated[
        list[str], about("The plan's reason if applied, the reason of the hold if held.")
    ]
    replicas: Annotated[
        list[Count], about("Replicas requested from the cluster; unchanged if held.")
    ]
    cpu_request: Annotated[
        list[Millicores], about("CPU request per pod in millicores; unchanged if held.")
    ]
    memory_request: Annotated[list[MiB], about("Memory request per pod in MiB; unchanged if held.")]
    replicas_before: Annotated[list[Count], about("Replicas before the change.")]
    cpu_request_before: Annotated[
        list[Millicores], about("CPU request per pod before the change, in millicores.")
    ] = []
    memory_request_before: Annotated[
        list[MiB], about("Memory request per pod before the change, in MiB.")
    ] = []
    orders: Annotated[
        list[str],
        about("Id of the operator's order that changed or held the app; empty if none did."),
    ] = []
    orders_waiting: Annotated[
        Count, about("Orders that may concern the domain and that the limit per minute holds back.")
    ] = 0
    breaker: Annotated[str, about("State of the breaker the actuator used.")] = "closed"
    contradictions: Annotated[
        Count,
        about("Apps whose pods in the frame contradict what the cluster has; they are held."),
    ] = 0
    versions: Annotated[
        dict[str, str], about("Version of each model and rule set behind the decision.")
    ] = {}

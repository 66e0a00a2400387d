"""The plan of a Soldier: what it wants for each app of its domain in one tick."""

from typing import Annotated

import msgspec

from schemas.fields import (
    Cores,
    Count,
    Epoch,
    GiB,
    MiB,
    Millicores,
    Name,
    Part,
    PerSecond,
    TickEvent,
    about,
)


class Sums(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over the apps of a domain: all that the Commander gets to know about the domain."""

    apps: Annotated[Count, about("Apps that ever had a valid sample.")]
    work: Annotated[Cores, about("Cores for the current work at 100 % utilisation.")]
    essential: Annotated[
        Cores, about("Cores for the current work at the highest tolerable utilisation.")
    ]
    kept: Annotated[
        Cores, about("Like `essential`, but not below what running pods are sized for.")
    ]
    wanted: Annotated[Cores, about("Cores the Soldier would hold without any limit.")]
    held: Annotated[Cores, about("Cores requested by bound and pending pods.")]
    held_memory_gib: Annotated[GiB, about("Memory requested by bound and pending pods, in GiB.")]
    pending: Annotated[Cores, about("Cores requested by pending pods.")]
    distress: Annotated[Cores, about("Cores that single apps lack for their essential work.")]
    rps: Annotated[PerSecond, about("Requests per second that arrive at all apps.")]
    at_risk: Annotated[Count, about("Apps at risk of missing their SLO.")]


class ScalePlanned(TickEvent, frozen=True, kw_only=True):
    """Parallel columns with one entry per app of the domain. An unchanged app is a decision too."""

    domain: Annotated[Name, about("Planned domain.")]
    part: Annotated[Part, about("Position among the parts of the event.")] = Part()
    decision_id: Annotated[
        str, about("Id of the decision; deciding the same tick again yields the same id.")
    ]
    epoch: Annotated[Epoch, about("Epoch of the budget behind the plan; -1 without a budget.")]
    policy: Annotated[str, about("Name and version of the policy that decided.")]
    apps: Annotated[list[Name], about("All apps of the domain, by `ordinal`, then name.")]
    replicas: Annotated[list[Count], about("Planned number of replicas.")]
    cpu_request: Annotated[list[Millicores], about("Planned CPU request per pod in millicores.")]
    memory_request: Annotated[list[MiB], about("Planned memory request per pod in MiB.")]
    reasons: Annotated[list[str], about("Reason code for each app.")]
    need: Annotated[list[float], about("Pods each app would have without any limit.", "pods")] = []
    replicas_before: Annotated[list[Count], about("Observed number of replicas.")] = []
    cpu_request_before: Annotated[
        list[Millicores], about("Observed CPU request per pod in millicores.")
    ] = []
    memory_request_before: Annotated[
        list[MiB], about("Observed memory request per pod in MiB.")
    ] = []
    changes: Annotated[Count, about("Number of apps that the plan changes.")] = 0
    sums: Annotated[Sums | None, about("Sums over the domain; only in the first part.")] = None
    overruns: Annotated[
        Count, about("Increases beyond the budget since the Soldier started; expected to be 0.")
    ] = 0
    versions: Annotated[
        dict[str, str], about("Version of each model and rule set behind the decision.")
    ] = {}
    fallback_reason: Annotated[
        str, about("Why a promoted policy does not advise; empty if it does, or if there is none.")
    ] = ""

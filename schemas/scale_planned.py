"""What a Soldier wants for its domain in one tick."""

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
    """What a domain reports to the Commander: sums over its apps, and nothing of single ones."""

    apps: Annotated[Count, about("of the domain")]
    work: Annotated[Cores, about("for the work that is there, fully used")]
    essential: Annotated[Cores, about("for it at the highest bearable utilisation")]
    kept: Annotated[Cores, about("the same, and what pods on nodes are sized for")]
    wanted: Annotated[Cores, about("what the Soldier would hold, if there were no limits")]
    held: Annotated[Cores, about("requests of bound and pending pods")]
    held_memory: Annotated[GiB, about("of the same")]
    pending: Annotated[Cores, about("of the pending ones")]
    distress: Annotated[Cores, about("missing for the essential work of single apps")]
    rps: Annotated[PerSecond, about("requests that arrive at all apps")]
    at_risk: Annotated[Count, about("of the apps")]


class ScalePlanned(TickEvent, frozen=True, kw_only=True):
    """A place per app of the domain, in the order of `apps`; holding is a decision too."""

    domain: Annotated[Name, about("that is planned for")]
    part: Part = Part()
    decision_id: Annotated[str, about("the same when the tick is decided again")]
    epoch: Annotated[Epoch, about("of the budget it was planned under; -1 without one")]
    policy: Annotated[str, about("name and version of what decided")]
    apps: Annotated[list[Name], about("all of the domain, by `ordinal`, then name")]
    replicas: Annotated[list[Count], about("wanted")]
    cpu_request: Annotated[list[Millicores], about("wanted per pod")]
    memory_request: Annotated[list[MiB], about("wanted per pod")]
    reasons: Annotated[list[str], about("why the numbers of each app are what they are")]
    need: Annotated[list[float], about("that the app would have without limits", "pods")] = []
    replicas_before: Annotated[list[Count], about("what they are")] = []
    cpu_request_before: Annotated[list[Millicores], about("what it is")] = []
    memory_request_before: Annotated[list[MiB], about("what it is")] = []
    changes: Annotated[Count, about("apps with a number that differs from before")] = 0
    sums: Annotated[Sums | None, about("of the whole domain; with the first part")] = None
    overruns: Annotated[Count, about("increases beyond the budget since the start: none")] = 0
    versions: Annotated[dict[str, str], about("of every model and rule behind it")] = {}

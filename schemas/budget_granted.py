"""The capacity a domain may hold until the next budget: the contract others subscribe to."""

from typing import Annotated, Literal

from schemas.fields import (
    Cores,
    Epoch,
    GiB,
    Money,
    Name,
    Ratio,
    Share,
    Tick,
    TickEvent,
    about,
)


class BudgetGranted(TickEvent, frozen=True, kw_only=True):
    """The newest epoch counts; an older one is ignored. Shares and reserve sum to 1."""

    domain: Annotated[Name, about("that may hold it")]
    epoch: Annotated[Epoch, about("rises with each budget, over restarts too: a fencing number")]
    valid_until_tick: Annotated[
        Tick, about("the last tick; then increases above the floor wait, decreases do not begin")
    ]
    share: Annotated[Share, about("of all cores of the cluster's ready nodes")]
    reserve: Annotated[Share, about("of all cores, that belongs to no domain")]
    cores: Annotated[Cores, about("the share in cores: what the domain may hold")]
    memory: Annotated[GiB, about("that goes with the cores")]
    pool_cores: Annotated[dict[Name, Cores], about("the same by pool")] = {}
    overdraft: Annotated[
        Cores, about("beyond the budget, out of the reserve; at most a tenth of the budget")
    ] = 0.0
    floor: Annotated[Cores, about("what an expired budget still allows")] = 0.0
    urgency: Annotated[Share, about("how soon the domain needs what it has not")] = 0.0
    headroom: Annotated[
        Ratio, about("to add to every need, as a share: how unsure the forecast is")
    ] = 0.0
    growth: Annotated[
        Ratio, about("forecast load over the present one, within the time that pods take to start")
    ] = 1.0
    release: Annotated[Cores, about("to give back now, because others cannot do without")] = 0.0
    held: Annotated[Cores, about("what the domain held when this was granted")] = 0.0
    spend_left: Annotated[Money | None, about("of the spend cap, in this hour")] = None
    reasons: Annotated[list[str], about("in words, the weightiest first")] = []
    versions: Annotated[dict[str, str], about("of every model and rule behind it")] = {}
    decision_id: Annotated[str, about("the same when the tick is decided again")] = ""
    status: Annotated[
        Literal["granted", "held"],
        about("held: inputs were missing, so this repeats the last budget"),
    ] = "granted"

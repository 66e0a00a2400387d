"""The capacity a domain may hold until its next budget: the contract other systems subscribe to."""

from typing import Annotated

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
    """The budget of one domain. The highest epoch wins; ignore older ones.

    The shares of all domains in an epoch and `reserve_share` sum to 1. A domain that stopped
    reporting keeps its share but gets no record, so don't wait for it: its last budget expires.
    """

    domain: Annotated[Name, about("Domain that may hold the capacity.")]
    epoch: Annotated[
        Epoch, about("Fencing number; rises with each budget, across restarts of the Commander.")
    ]
    valid_until_tick: Annotated[
        Tick,
        about(
            "Last tick at which the budget is valid. An expired budget blocks increases above "
            "`floor_cores`; it never causes a decrease."
        ),
    ]
    share: Annotated[Share, about("Budget as a share of the cores of all ready nodes, 0 to 1.")]
    reserve_share: Annotated[
        Share, about("Share of the cores of all ready nodes that no domain is granted, 0 to 1.")
    ]
    cores: Annotated[Cores, about("Budget in cores.")]
    memory_gib: Annotated[GiB, about("Memory that goes with the cores, in GiB.")]
    pool_cores: Annotated[dict[Name, Cores], about("Budget in cores, by pool.")] = {}
    overdraft_cores: Annotated[
        Cores,
        about("Cores the domain may draw from the reserve on top; at most 10 % of `cores`."),
    ] = 0.0
    floor_cores: Annotated[
        Cores, about("Cores the domain may hold even if the budget has expired.")
    ] = 0.0
    urgency: Annotated[
        Share, about("How urgently the domain needs capacity it lacks: 0 not at all, 1 at once.")
    ] = 0.0
    headroom: Annotated[
        Ratio, about("Share to add to every app's need, as far as cores are spare.")
    ] = 0.0
    insured_headroom: Annotated[
        Ratio, about("The part of `headroom` that is there to carry the loss of a zone.")
    ] = 0.0
    headroom_cut: Annotated[
        Share,
        about(
            "Share to take from every app's need, because a policy expects no rise; a reader that "
            "does not know it keeps more."
        ),
    ] = 0.0
    growth: Annotated[
        Ratio, about("Forecast load over current load within the time a pod takes to start.")
    ] = 1.0
    release_cores: Annotated[
        Cores, about("Cores to release now to domains with a higher need.")
    ] = 0.0
    held_cores: Annotated[Cores, about("Cores the domain held when the budget was granted.")] = 0.0
    spend_left: Annotated[
        Money | None,
        about(
            "Money per hour between the spend cap and the price of all nodes, requested ones "
            "included; below zero the cap is exceeded. Null from releases that do not track it."
        ),
    ] = None
    reasons: Annotated[list[str], about("Reasons in plain words, the most important first.")] = []
    versions: Annotated[
        dict[str, str], about("Version of each model and rule set behind the decision.")
    ] = {}
    decision_id: Annotated[
        str, about("Id of the decision; deciding the same tick again yields the same id.")
    ] = ""

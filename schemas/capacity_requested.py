"""One coordinated node request per pool, which the provisioner fulfils in order of urgency."""

from typing import Annotated

import msgspec

from schemas.fields import Count, Epoch, Money, Name, Tick, TickEvent, about


class NodesByUrgency(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes to add beyond those ready, booting and requested, the most urgent first."""

    critical: Annotated[Count, about("Nodes the highest priority needs for the work it has.")] = 0
    essential: Annotated[Count, about("Nodes other priorities need for the work they have.")] = 0
    comfort: Annotated[Count, about("Headroom for the highest priority.")] = 0
    spare: Annotated[Count, about("Headroom for other priorities.")] = 0


class CapacityRequested(TickEvent, frozen=True, kw_only=True):
    """The nodes a pool needs. While it is valid, the pool's pending pods don't request nodes."""

    pool: Annotated[Name, about("Pool whose nodes are requested.")]
    epoch: Annotated[Epoch, about("Epoch of the budgets granted with the request.")]
    valid_until_tick: Annotated[Tick, about("Last tick at which the provisioner obeys it.")]
    nodes: Annotated[NodesByUrgency, about("Nodes to add, by urgency.")]
    min_nodes: Annotated[
        Count, about("Don't scale the pool down below this many nodes, even if they are idle.")
    ] = 0
    insured_nodes: Annotated[
        Count,
        about("Nodes of `min_nodes` that are kept only to carry the loss of a zone."),
    ] = 0
    insured_per_hour: Annotated[Money, about("Price of `insured_nodes` per hour.")] = 0.0
    reasons: Annotated[list[str], about("Reasons in plain words, the most important first.")] = []
    decision_id: Annotated[
        str, about("Id of the decision; deciding the same tick again yields the same id.")
    ] = ""
    versions: Annotated[
        dict[str, str], about("Version of each model and rule set behind the decision.")
    ] = {}

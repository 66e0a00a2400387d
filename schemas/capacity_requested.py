"""One coordinated request for nodes of a pool, which the provisioner obeys in order of priority."""

from typing import Annotated

import msgspec

from schemas.fields import Count, Epoch, Name, Tick, TickEvent, about


class NodesByUrgency(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes wanted beyond those ready, booting and queued, the most urgent first."""

    critical: Annotated[Count, about("the highest priority cannot do its work without")] = 0
    essential: Annotated[Count, about("others cannot do their work without")] = 0
    comfort: Annotated[Count, about("room for the highest priority")] = 0
    spare: Annotated[Count, about("room for others")] = 0


class CapacityRequested(TickEvent, frozen=True, kw_only=True):
    """While it is valid, pending pods of the pool do not ask for nodes on their own."""

    pool: Annotated[Name, about("whose nodes these are")]
    epoch: Annotated[Epoch, about("of the budgets that were granted with it")]
    valid_until_tick: Annotated[Tick, about("the last tick at which the provisioner obeys it")]
    nodes: NodesByUrgency
    keep: Annotated[Count, about("nodes that are not scaled down below, however idle")] = 0
    decision_id: Annotated[str, about("the same when the tick is decided again")] = ""
    versions: Annotated[dict[str, str], about("of every model and rule behind it")] = {}

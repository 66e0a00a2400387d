"""What is sent to the breakers of the model, and what may happen to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import msgspec

from models.cluster.description import Cluster, load_cluster
from models.control.breaker.cluster import ClusterThresholds
from models.control.breaker.limits import Thresholds
from schemas.budget_granted import BudgetGranted
from schemas.codec import encode
from schemas.domain_observed import DomainObserved, Pods
from services._kit.records import Delivery
from services.breaker.decide import BreakerHandler
from tests.service_helpers import time_of

DOMAINS: Final = ("data", "merchant")
"""The first is of P2, whose thresholds are the configured ones."""
LIMITS: Final = Thresholds(
    stale_ticks=2, missing_ticks=2, error_ticks=2, burn_ticks=2, burn_short_ticks=2,
    burn_long_ticks=2, quiet_ticks=2, probation_ticks=2, resume_ticks=1,
)  # fmt: skip
CLUSTER_LIMITS: Final = ClusterThresholds(budgets_ticks=2)
BEGIN: Final = 1000.0
TICK_S: Final = 10.0
STALE_S: Final = 30.0
PLAUSIBLE, IMPLAUSIBLE = 0.1, 1.5
"""Shares of a budget."""

GOOD, BAD, FAILING, NONE = "good", "bad", "failing", "no"
"""A frame: without a fault, with every app missing, with every request failing; none at all."""
RESTART, LOSS, AGAIN = range(3)
"""Kinds of faults: a process restarts, or is paused and replaced; it restarts, and its state is
unreadable or gone; a frame is delivered again."""


@dataclass(frozen=True)
class Scenario:
    """What may happen, and the handler that it happens to."""

    domains: Sequence[str] = DOMAINS[:1]
    kinds: Sequence[str] = (GOOD, BAD, NONE)
    before: Sequence[str] = ()
    """Frames of the first ticks."""
    ticks: int = 5
    most_late: int = 0
    """Frames of a domain that may wait to be taken while time passes."""
    most_lag: int = 0
    """Ticks before the last by which a process may be behind in what others published."""
    lock_step: bool = False
    """Without wall clock."""
    budgets: bool = False
    """Whether the newest budget may become implausible, and plausible again."""
    faults: Mapping[int, int] = field(default_factory=dict)
    """Most faults by kind."""
    most_faults: int = 1
    handler: type[BreakerHandler] = BreakerHandler
    fences: bool = True


@cache
def frame(domain: str, tick: int, kind: str) -> Delivery:
    """The record of a frame of two apps."""
    apps = [f"{domain}/a", f"{domain}/b"]
    pods: dict[str, Any] = {name: [4, 4] for name in Pods.__struct_fields__}
    errors = 1.0 if kind == FAILING else 0.0
    event = DomainObserved(
        tick=tick, time=time_of(tick), domain=domain, apps=apps, pods=Pods(**pods),
        measured={"rps": [10.0, 10.0], "errors": [errors, errors]},
        features={"headroom": [0.5, 0.5]}, load_pods=[1.0, 1.0], usual_load_pods=[1.0, 1.0],
        missing=apps if kind == BAD else [],
    )  # fmt: skip
    (record,) = encode(event, "model")
    return Delivery(record.topic, 0, tick, record.key, record.value, record.headers, BEGIN)


def budget(share: float) -> BudgetGranted:
    """The newest budget."""
    return BudgetGranted(
        tick=0, time=time_of(0), domain=DOMAINS[0], epoch=0, valid_until_tick=18, share=share,
        reserve_share=0.1, cores=100.0, memory_gib=400.0,
    )  # fmt: skip


def cluster_of(domains: Sequence[str]) -> Cluster:
    """The example cluster with these domains only, in this order."""
    whole = load_cluster()
    kept = {one.name: one for one in whole.domains}
    return msgspec.structs.replace(whole, domains=tuple(map(kept.__getitem__, domains)), calls=())

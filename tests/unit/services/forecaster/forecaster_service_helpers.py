"""Declarations and frames of domains with one app each."""

import numpy as np

from schemas.demand_backfilled import DemandBackfilled
from schemas.domain_observed import DomainObserved, Pods
from schemas.metrics_sampled import MEASURED
from services._kit.memory import MemoryBus
from tests.service_helpers import CLUSTER, declared, time_of

GRACE_S = 2.0


def declare_apps(bus: MemoryBus) -> None:
    for index, domain in enumerate(CLUSTER.domain_names):
        bus.publish(declared(f"{domain}-0001", domain=domain, ordinal=index))


def frame(domain: str, tick: int, rps: float | None = 100.0) -> DomainObserved:
    some = None if rps is None else 1.0
    measured = {name: [some] for name in MEASURED} | {"rps": [rps]}
    return DomainObserved(
        tick=tick,
        time=time_of(tick),
        domain=domain,
        apps=[f"{domain}-0001"],
        pods=Pods(
            replicas=[1],
            cpu_request=[1000],
            memory_request=[1024],
            ready=[1],
            starting=[0],
            pending=[0],
            restarts=[0],
        ),
        measured=measured,
        features={},
        load_pods=[1.0],
        usual_load_pods=[1.0],
    )


def backfill(bus: MemoryBus, minutes: int = 250, until_tick: int = 0) -> None:
    rps = np.random.default_rng(0).uniform(90, 110, (len(CLUSTER.domain_names), minutes)).tolist()
    for domain, row in zip(CLUSTER.domain_names, rps, strict=True):
        until = time_of(until_tick)
        bus.publish(DemandBackfilled(domain=domain, until_tick=until_tick, until=until, rps=row))


def play(bus: MemoryBus, first: int, last: int, *silent: str) -> None:
    for tick in range(first, last + 1):
        rps = float(100.0 + 10.0 * np.sin(tick))
        reporting = [d for d in CLUSTER.domain_names if d not in silent]
        bus.publish(*(frame(domain, tick, rps) for domain in reporting))
        bus.publish(*(frame(domain, tick, None) for domain in silent))
    bus.run()

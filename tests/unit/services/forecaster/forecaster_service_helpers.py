"""Declarations and frames of domains with one app each."""

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

"""Events of a small cluster for tests: apps, samples, pools, budgets, plans and heartbeats."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from models.sim.config.physics import SimCluster, load_sim_cluster
from schemas.app_declared import AppDeclared
from schemas.breaker_changed import BreakerChanged
from schemas.budget_granted import BudgetGranted
from schemas.fields import Event
from schemas.metrics_sampled import MetricsSampled
from schemas.pool_observed import PoolObserved
from schemas.scale_planned import ScalePlanned, Sums

CLUSTER: SimCluster = load_sim_cluster()
DOMAIN = "payments"
APPS = ("payments-0001", "payments-0002", "payments-0003")
REPLICAS = 10


def time_of(tick: int) -> str:
    """Event time of a tick."""
    return f"{datetime(2026, 1, 5, tzinfo=UTC) + timedelta(seconds=tick * 10):%Y-%m-%dT%H:%M:%SZ}"


def declared(app: str = APPS[0], **changes: Any) -> AppDeclared:
    """An app that may have 2 to 50 pods."""
    plain = AppDeclared(
        app=app,
        domain=DOMAIN,
        ordinal=int(app[-4:]),
        min_replicas=2,
        max_replicas=50,
        latency_target_s=0.2,
        saturation=0.8,
    )
    return msgspec.structs.replace(plain, **changes)


def inventory() -> list[Event]:
    """All apps."""
    return [declared(app) for app in APPS]


def sampled(tick: int, use: float = 0.4, **changes: Any) -> MetricsSampled:
    """A whole batch: ten pods of one core per app, of which `use` is used."""
    count = len(changes.get("apps", APPS))
    each = {
        "rps": 100.0,
        "throughput": 100.0,
        "errors": 0.0,
        "latency_p50_s": 0.02,
        "latency_p99_s": 0.05,
        "cpu_cores": use * REPLICAS,
        "memory_gib": 10.0,
        "measured_pods": float(REPLICAS),
        "replicas": REPLICAS,
        "cpu_request": 1000,
        "memory_request": 2048,
        "ready": REPLICAS,
        "starting": 0,
        "pending": 0,
        "restarts": 0,
    }
    columns: dict[str, Any] = {name: [value] * count for name, value in each.items()}
    plain = MetricsSampled(
        tick=tick, time=time_of(tick), domain=DOMAIN, apps=list(APPS), final=True, **columns
    )
    return msgspec.structs.replace(plain, **changes)


def pools(tick: int) -> list[Event]:
    """Every pool, with many free cores."""
    return [
        PoolObserved(
            tick=tick,
            time=time_of(tick),
            pool=name,
            ready=100,
            booting=0,
            quota=200,
            free_cores=500.0,
            free_memory_gib=2000.0,
        )
        for name in CLUSTER.pool_names
    ]


def granted(tick: int, cores: float = 1000.0, **changes: Any) -> BudgetGranted:
    """A budget based on a tick, valid for three minutes."""
    plain = BudgetGranted(
        tick=tick,
        time=time_of(tick),
        domain=DOMAIN,
        epoch=tick // 6,
        valid_until_tick=tick + 18,
        share=0.2,
        reserve_share=0.05,
        cores=cores,
        memory_gib=4 * cores,
        floor_cores=30.0,
    )
    return msgspec.structs.replace(plain, **changes)


def heartbeat(tick: int, state: Any = "closed", **changes: Any) -> BreakerChanged:
    """A heartbeat of the breaker."""
    plain = BreakerChanged(
        tick=tick,
        time=time_of(tick),
        scope=DOMAIN,
        state=state,
        since_tick=0,
        heartbeat=True,
    )
    return msgspec.structs.replace(plain, **changes)


def planned(
    domain: str, tick: int, held: float = 100.0, distress: float = 0.0, at_risk: int = 0
) -> ScalePlanned:
    """A plan without changes, with the sums of its domain."""
    sums = Sums(
        apps=10,
        work=0.5 * held,
        essential=0.6 * held + distress,
        kept=0.8 * held + distress,
        wanted=held + distress,
        held=held,
        held_memory_gib=4 * held,
        pending=0.0,
        distress=distress,
        rps=1000.0,
        at_risk=at_risk,
    )
    return ScalePlanned(
        tick=tick,
        time=time_of(tick),
        domain=domain,
        decision_id=f"{domain}/{tick}",
        epoch=-1,
        policy="test/1",
        apps=[],
        replicas=[],
        cpu_request=[],
        memory_request=[],
        reasons=[],
        sums=sums,
    )

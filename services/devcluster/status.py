"""Status of a whole system: its services, the broker, and progress of the scenario."""

from pathlib import Path

import msgspec

from services.devcluster import record
from services.devcluster.kafka import cluster as kafka_cluster
from services.devcluster.probe import Progress, ServiceMetrics, read_metrics, read_progress
from services.devcluster.processes import is_running
from services.devcluster.record import ROOT, Run, State


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """One service."""

    state: State
    pid: int | None
    up_since: float | None
    """Wall time, seconds since 1970."""
    ready: bool
    lag: int | None
    event_age_s: float | None
    restarts: int
    detail: str
    log: str


class SystemStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Everything; `hirl status --json` writes it."""

    run: str
    scenario: str
    pace: str
    supervised: bool
    broker_up: bool
    bootstrap: str
    cluster_url: str
    tick: int | None
    """Tick of the simulated cluster; None while it doesn't answer."""
    closed_tick: int | None
    total_ticks: int
    breakers: dict[str, str]
    """What limits decisions, by scope; they do their work then, so the system is still healthy."""
    services: dict[str, Service]
    healthy: bool


def read_status(root: Path = ROOT) -> SystemStatus | None:
    """The status now; None if there is no system."""
    run = record.read(root)
    if run is None:
        return None
    metrics = {spec.name: read_metrics(spec) for spec in run.specs}
    return status_of(
        run,
        metrics,
        read_progress(run),
        supervised=is_running(run.supervisor),
        broker_up=kafka_cluster.running(Path(run.kafka_home)) is not None,
    )


def status_of(
    run: Run,
    metrics: dict[str, ServiceMetrics],
    progress: Progress | None,
    *,
    supervised: bool,
    broker_up: bool,
) -> SystemStatus:
    """Combine what was read; a system is healthy when every part of it is."""
    services = {spec.name: _service(run, spec.name, spec.log, metrics) for spec in run.specs}
    # "done" is healthy: the collector ends with the scenario.
    services_healthy = all(
        service.state == "done" or (service.state == "running" and service.ready)
        for service in services.values()
    )
    return SystemStatus(
        run=run.name,
        scenario=run.simulation.scenario,
        pace=run.simulation.pace,
        supervised=supervised,
        broker_up=broker_up,
        bootstrap=run.bootstrap,
        cluster_url=run.cluster_url,
        tick=progress.tick if progress else None,
        closed_tick=progress.closed if progress else None,
        total_ticks=run.simulation.total_ticks,
        breakers={scope: what for one in metrics.values() for scope, what in one.breakers.items()},
        services=services,
        healthy=services_healthy and supervised and broker_up,
    )


def _service(run: Run, name: str, log: str, metrics: dict[str, ServiceMetrics]) -> Service:
    status, found = run.status(name), metrics[name]
    return Service(
        state=status.state,
        pid=status.process.pid if status.process else None,
        up_since=status.since if status.state == "running" else None,
        ready=found.ready and status.state == "running",
        lag=found.lag,
        event_age_s=found.age_s,
        restarts=status.restarts,
        detail=status.detail,
        log=log,
    )

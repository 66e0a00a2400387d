"""What `hirl status` shows: services, broker, and how far the scenario has come."""

from pathlib import Path
from typing import Final

import msgspec

from services.devcluster import record
from services.devcluster.identity import is_running
from services.devcluster.kafka import cluster as kafka_cluster
from services.devcluster.probe import Progress, Vitals, progress_of, vitals_of
from services.devcluster.record import ROOT, Run, State

_UP: Final = ("running", "done")


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


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` writes."""

    run: str
    scenario: str
    pace: str
    supervised: bool
    broker_up: bool
    bootstrap: str
    cluster_url: str
    tick: int | None
    """At which the simulated cluster is; None while it does not answer."""
    closed_tick: int | None
    total_ticks: int
    services: dict[str, Service]
    healthy: bool


def look(root: Path = ROOT) -> Overview | None:
    """How everything is now; None where there is no system."""
    run = record.read(root)
    if run is None:
        return None
    vitals = {spec.name: vitals_of(spec) for spec in run.specs}
    return overview_of(
        run,
        vitals,
        progress_of(run),
        supervised=is_running(run.supervisor),
        broker_up=kafka_cluster.running(Path(run.kafka_home)) is not None,
    )


def overview_of(
    run: Run,
    vitals: dict[str, Vitals],
    progress: Progress | None,
    *,
    supervised: bool,
    broker_up: bool,
) -> Overview:
    """All of it in one value."""
    services = {spec.name: _service(run, spec.name, spec.log, vitals) for spec in run.specs}
    fine = all(
        service.state == "done" or (service.state == "running" and service.ready)
        for service in services.values()
    )
    return Overview(
        run=run.name,
        scenario=run.scene.scenario,
        pace=run.scene.pace,
        supervised=supervised,
        broker_up=broker_up,
        bootstrap=run.bootstrap,
        cluster_url=run.cluster_url,
        tick=progress.tick if progress else None,
        closed_tick=progress.closed if progress else None,
        total_ticks=run.scene.total_ticks,
        services=services,
        healthy=fine and supervised and broker_up,
    )


def _service(run: Run, name: str, log: str, vitals: dict[str, Vitals]) -> Service:
    standing, said = run.standing(name), vitals[name]
    return Service(
        state=standing.state,
        pid=standing.process.pid if standing.process else None,
        up_since=standing.since if standing.state == "running" else None,
        ready=said.ready and standing.state == "running",
        lag=said.lag,
        event_age_s=said.age_s,
        restarts=standing.restarts,
        detail=standing.detail,
        log=log,
    )

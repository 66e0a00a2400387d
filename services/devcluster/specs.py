"""Command line and environment of every service, as a container would get them."""

import sys
from pathlib import Path
from typing import Final

from models.sim.config.timeline import Timeline
from services.devcluster.kafka.description import Description
from services.devcluster.kafka.security import credentials_file
from services.devcluster.processes import HOST
from services.devcluster.record import COLLECTOR, SIMCLUSTER, ServiceSpec
from services.devcluster.request import Request, rule_minutes

DECIDING: Final = ("aggregator", "forecaster", "commander", "soldier", "actuator", "breaker")
SERVICES: Final = (SIMCLUSTER, COLLECTOR, *DECIDING)
_WITH_CLUSTER_FILE: Final = frozenset(SERVICES) - {COLLECTOR}
"""The collector asks its source."""
_USERS: Final = {SIMCLUSTER: "provisioner"}
"""Kafka users that differ from the service name: only the simulated provisioner reads topics."""
_INSTANCE: Final = "1"
"""One process per service. The name survives restarts, so the process gets its partitions back."""


def service_specs(
    request: Request,
    timeline: Timeline,
    kafka: Description,
    kafka_home: Path,
    folder: Path,
    ports: list[int],
) -> tuple[ServiceSpec, ...]:
    """All services in the order of data flow; `ports` has one port for each."""
    urls = {name: f"http://{HOST}:{port}" for name, port in zip(SERVICES, ports, strict=True)}
    common = _common_environment(request, kafka)
    own = _own_environments(request, timeline, urls[SIMCLUSTER])
    return tuple(
        ServiceSpec(
            name=name,
            command=(sys.executable, "-m", f"services.{name}"),
            environment=common | _port_variable(name, urls[name]) | own.get(name, {}),
            credentials=_credentials(name, kafka, kafka_home),
            url=urls[name],
            log=str(folder / "logs" / f"{name}.log"),
            stage=_stage(name, request),
            # A restarted world would begin at its first tick, which all services have closed.
            restartable=name != SIMCLUSTER,
            # Both end with the scenario.
            ends_by_itself=name in (SIMCLUSTER, COLLECTOR),
            stops_last=name == SIMCLUSTER,
        )
        for name in SERVICES
    )


def _stage(name: str, request: Request) -> int:
    """A free-running cluster starts when all deciding services are ready for its first tick."""
    # In lock-step the cluster waits for every tick to close, so the order doesn't matter.
    if request.lock_step or name in DECIDING:
        return 0
    return 1 if name == SIMCLUSTER else 2


def _common_environment(request: Request, kafka: Description) -> dict[str, str]:
    return {
        "HIRL_KAFKA_BOOTSTRAP": kafka.bootstrap,
        "HIRL_INSTANCE": _INSTANCE,
        "HIRL_LOCK_STEP": str(request.lock_step).lower(),
        "HIRL_SPEED": f"{request.speed:g}",
        "HIRL_GRACE_SECONDS": f"{request.grace_s:g}",
        # A service computes in one thread. Threads of OpenBLAS would only wait for each other: a
        # sum over 16,000 apps took 8 ms of CPU time instead of 8 us.
        "OPENBLAS_NUM_THREADS": "1",
    }


def _port_variable(name: str, url: str) -> dict[str, str]:
    port = url.rpartition(":")[2]
    return {"HIRL_SIMCLUSTER_PORT" if name == SIMCLUSTER else "HIRL_METRICS_PORT": port}


def _own_environments(
    request: Request, timeline: Timeline, cluster_url: str
) -> dict[str, dict[str, str]]:
    """Settings of single services, by service."""
    own = {
        SIMCLUSTER: {
            "HIRL_SIMCLUSTER_SCENARIO": request.scenario,
            "HIRL_SIMCLUSTER_SEED": str(request.seed),
            "HIRL_SIMCLUSTER_APPS": str(request.apps or 0),
            # It serves its results until it is stopped.
            "HIRL_SIMCLUSTER_LINGER_SECONDS": "-1",
        },
        COLLECTOR: {"HIRL_COLLECTOR_URL": cluster_url},
        "forecaster": {
            "HIRL_FORECASTER_MODEL": request.forecast,
            "HIRL_FORECASTER_RULE_MINUTES": str(rule_minutes(timeline)),
        },
        "actuator": {"HIRL_ACTUATOR_TARGET": cluster_url, "HIRL_ACTUATOR_MODE": request.mode},
    }
    if request.cluster is not None:
        for name in _WITH_CLUSTER_FILE:
            variable = f"HIRL_{name.upper()}_CLUSTER"
            # Absolute: a path must mean the same to a process with another working directory.
            own.setdefault(name, {})[variable] = str(request.cluster.resolve())
    if request.physics is not None:
        own[SIMCLUSTER]["HIRL_SIMCLUSTER_PHYSICS"] = str(request.physics.resolve())
    return own


def _credentials(name: str, kafka: Description, home: Path) -> str:
    if kafka.security == "plain":
        return ""
    return str(credentials_file(home, _USERS.get(name, name)))

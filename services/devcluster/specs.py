"""Every service with the command line and the environment that a container would have, too."""

import sys
from pathlib import Path
from typing import Final

from models.sim.config.timeline import Timeline
from services.devcluster.kafka.description import HOST, Description
from services.devcluster.kafka.security import credentials_file
from services.devcluster.record import SIMCLUSTER, Spec
from services.devcluster.request import Request, rule_minutes

DECIDING: Final = ("aggregator", "forecaster", "commander", "soldier", "actuator", "breaker")
COLLECTOR: Final = "collector"
SERVICES: Final = (SIMCLUSTER, COLLECTOR, *DECIDING)
_WITH_CLUSTER_FILE: Final = frozenset(SERVICES) - {COLLECTOR, "breaker"}
_USERS: Final = {SIMCLUSTER: "provisioner"}
"""Who is known to Kafka by another name: of the simulated cluster only the provisioner reads."""
_INSTANCE: Final = "1"
"""One process per service; its name stays the same over restarts, so its partitions come back."""


def lineup(
    request: Request,
    timeline: Timeline,
    kafka: Description,
    kafka_home: Path,
    folder: Path,
    ports: list[int],
) -> tuple[Spec, ...]:
    """What to start, in the order in which data flows; a port for each."""
    urls = {name: f"http://{HOST}:{port}" for name, port in zip(SERVICES, ports, strict=True)}
    common = _common(request, kafka)
    own = _own(request, timeline, urls[SIMCLUSTER])
    return tuple(
        Spec(
            name=name,
            command=(sys.executable, "-m", f"services.{name}"),
            environment=common | _listening(name, urls[name]) | own.get(name, {}),
            credentials=_credentials(name, kafka, kafka_home),
            url=urls[name],
            log=str(folder / "logs" / f"{name}.log"),
            stage=_stage(name, request),
            # A world that died cannot be taken up again: it would begin at its first tick, which
            # everybody has closed.
            restarts=name != SIMCLUSTER,
            outlives=name == SIMCLUSTER,
        )
        for name in SERVICES
    )


def _stage(name: str, request: Request) -> int:
    """A cluster that does not wait begins when everybody is there to see its first tick."""
    if request.lock_step or name in DECIDING:
        return 0
    return 1 if name == SIMCLUSTER else 2


def _common(request: Request, kafka: Description) -> dict[str, str]:
    return {
        "HIRL_KAFKA_BOOTSTRAP": kafka.bootstrap,
        "HIRL_INSTANCE": _INSTANCE,
        "HIRL_LOCK_STEP": str(request.lock_step).lower(),
        "HIRL_SPEED": f"{request.speed:g}",
        "HIRL_GRACE_SECONDS": f"{request.tick_patience_s:g}",
    }


def _listening(name: str, url: str) -> dict[str, str]:
    port = url.rpartition(":")[2]
    return {"HIRL_SIMCLUSTER_PORT" if name == SIMCLUSTER else "HIRL_METRICS_PORT": port}


def _own(request: Request, timeline: Timeline, cluster_url: str) -> dict[str, dict[str, str]]:
    """By service, its own settings."""
    own = {
        SIMCLUSTER: {
            "HIRL_SIMCLUSTER_SCENARIO": request.scenario,
            "HIRL_SIMCLUSTER_SEED": str(request.seed),
            "HIRL_SIMCLUSTER_APPS": str(request.apps or 0),
            # It answers for its results until it is stopped.
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
            own.setdefault(name, {})[variable] = str(request.cluster.resolve())
    if request.physics is not None:
        own[SIMCLUSTER]["HIRL_SIMCLUSTER_PHYSICS"] = str(request.physics.resolve())
    return own


def _credentials(name: str, kafka: Description, home: Path) -> str:
    if kafka.security == "plain":
        return ""
    return str(credentials_file(home, _USERS.get(name, name)))

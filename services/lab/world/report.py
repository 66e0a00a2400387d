"""The figures of a run: changes from the API server's audit log, and the simulator's prediction."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from models.compare.catalogue import enter
from models.sim.config.scenario import load_scenario
from models.sim.results.summary import summarise
from services.lab.world.load import lab_cluster
from services.lab.world.play import Controller, Play, Tally

SIMULATED: Final[dict[Controller, str]] = {
    "hpa": "hpa",
    "hirl": "heuristic:calendar/no-vertical",
}
"""Entrants of the simulator that decide as each controller of the second world."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One run, in reality or simulated."""

    world: str
    controller: Controller
    seed: int
    p0_minutes: float
    p1_minutes: float
    node_hours: float
    actions: int
    mean_pending: float
    most_pending: int
    late_ticks: int = 0


class _Write(msgspec.Struct, frozen=True, rename="camel"):
    stage: str
    verb: str
    audit_id: str = msgspec.field(name="auditID")
    request_received_timestamp: datetime
    object_ref: dict[str, str] = {}
    response_status: dict[str, object] = {}


def changes(audit_log: Path, since: float) -> Counter[str]:
    """Accepted writes to `/scale` by app, since a wall time."""
    return Counter(
        write.object_ref.get("name", "")
        for write in _writes(audit_log)
        if write.request_received_timestamp.timestamp() >= since
    )


def _writes(audit_log: Path) -> Iterator[_Write]:
    with audit_log.open("rb") as lines:
        for line in lines:
            write = msgspec.json.decode(line, type=_Write)
            accepted = write.response_status.get("code") == 200
            if (
                write.stage == "ResponseComplete"
                and write.object_ref.get("subresource") == "scale"
                and write.verb in {"patch", "update"}
                and accepted
            ):
                yield write


def figures(played: Play, tally: Tally, actions: int) -> Figures:
    """Those of a run on the real control plane."""
    hours = max(tally.ticks, 1)
    return Figures(
        world="real",
        controller=played.controller,
        seed=played.seed,
        p0_minutes=tally.violation_minutes["P0"],
        p1_minutes=tally.violation_minutes["P1"],
        node_hours=tally.node_hours,
        actions=actions,
        mean_pending=tally.pending_pod_minutes * 6 / hours,
        most_pending=tally.most_pending,
        late_ticks=tally.late_ticks,
    )


def predicted(played: Play) -> Figures:
    """What the simulator says about the same scenario, seed and cluster."""
    cluster = lab_cluster(played.apps, played.pods)
    scenario = load_scenario(played.scenario, cluster)
    match = enter(SIMULATED[played.controller], cluster, scenario, [played.seed])
    decisions = match.play()
    (row,) = summarise(match.world, played.controller, decisions)
    return Figures(
        world="simulated",
        controller=played.controller,
        seed=played.seed,
        p0_minutes=row.violation_minutes["P0"],
        p1_minutes=row.violation_minutes["P1"],
        node_hours=row.node_hours,
        actions=row.scaling_actions,
        mean_pending=row.mean_pending_pods,
        most_pending=row.max_pending_pods,
    )

"""The plan of a tick as an event."""

from typing import Any, Final

import numpy as np

from models.cluster import rows
from models.cluster.arrays import I32
from models.cluster.plan import Plan
from models.control.report import Report
from models.control.soldiers import SoldiersState
from schemas.budget_granted import BudgetGranted
from schemas.domain_observed import DomainObserved
from schemas.scale_planned import ScalePlanned, Sums
from services._kit.arrays import REASONS
from services._kit.ticks import POLICY, decision_id

_PLANNED: Final = {
    "replicas": rows.REPLICAS,
    "cpu_request": rows.CPU_REQUEST,
    "memory_request": rows.MEMORY_REQUEST,
}
"""Columns of a plan, with their rows in the status."""


def planned_event(
    frame: DomainObserved,
    status: I32,
    plan: Plan,
    report: Report,
    after_tick: SoldiersState,
    domain: int,
    budget: BudgetGranted | None,
    versions: dict[str, str],
) -> ScalePlanned:
    """What the models planned for the apps of a frame, beside what they have."""
    before = {name: status[0, row] for name, row in _PLANNED.items()}
    after = dict(zip(_PLANNED, (plan.replicas[0], plan.cpu[0], plan.memory[0]), strict=True))
    changed = np.any([after[name] != before[name] for name in _PLANNED], axis=0)
    epoch = -1 if budget is None else budget.epoch
    # No sum is below zero, whatever a frame says of single apps: nobody could read the plan.
    sums: dict[str, Any] = {
        name: max(0.0, float(values[0, domain])) for name, values in report._asdict().items()
    }
    # The models sum in floats; the event counts apps in integers.
    counts = {name: int(sums[name]) for name in ("apps", "at_risk")}
    return ScalePlanned(
        tick=frame.tick,
        time=frame.time,
        trace_id=frame.trace_id,
        domain=frame.domain,
        decision_id=decision_id(frame.domain, frame.tick, epoch),
        epoch=epoch,
        policy=POLICY,
        apps=frame.apps,
        reasons=[REASONS[code] for code in plan.reason[0].tolist()],
        need=after_tick.memory.need[0].tolist(),
        changes=int(changed.sum()),
        sums=Sums(**sums | counts),
        overruns=int(after_tick.overruns[0]),
        versions=versions,
        **{name: values.tolist() for name, values in after.items()},
        **{f"{name}_before": values.tolist() for name, values in before.items()},
    )

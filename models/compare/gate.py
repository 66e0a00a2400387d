"""Whether a policy may replace the heuristic: J, P0 and nodes on the same seeds, by scenario."""

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from models.compare.pooled import cube
from models.compare.request import Request
from models.compare.standings import ALL, F64, NODE_HOURS, OBJECTIVE, P0
from models.sim.results.summary import Result
from models.statistics import Interval, mean, ratio_over_scenarios, relative_difference

Verdict = Literal["holds", "open", "sells P0"]


class GateRow(msgspec.Struct, frozen=True, kw_only=True):
    """One scenario, or all together; paired by seed."""

    scenario: str
    objective: Interval
    """J over the reference's, less one."""
    p0_minutes: Interval
    """P0 violation minutes more than the reference's, per seed."""
    node_hours: Interval
    """Over the reference's, less one."""
    verdict: Verdict


def gate(results: Sequence[Result], request: Request, ours: str) -> list[GateRow]:
    """Each scenario with intervals over the seeds; the last row over scenarios and seeds."""
    mine = {figure: cube(results, request, ours, figure) for figure in (OBJECTIVE, P0, NODE_HOURS)}
    theirs = {figure: cube(results, request, request.reference, figure) for figure in mine}
    rows = []
    for at, scenario in enumerate(request.scenarios):
        more = mean(mine[P0][at] - theirs[P0][at])
        rows.append(
            GateRow(
                scenario=scenario.name,
                objective=relative_difference(mine[OBJECTIVE][at], theirs[OBJECTIVE][at]),
                p0_minutes=more,
                node_hours=relative_difference(mine[NODE_HOURS][at], theirs[NODE_HOURS][at]),
                verdict=_verdict(more),
            )
        )
    more = mean((mine[P0] - theirs[P0]).mean(axis=0))
    together = GateRow(
        scenario=ALL,
        objective=_pooled(mine[OBJECTIVE], theirs[OBJECTIVE]),
        p0_minutes=more,
        node_hours=_pooled(mine[NODE_HOURS], theirs[NODE_HOURS]),
        verdict=_worst(rows),
    )
    return [*rows, together]


def passes(rows: Sequence[GateRow]) -> bool:
    """J is lower beyond doubt, and no scenario sells P0."""
    return rows[-1].objective.high < 0.0 and rows[-1].verdict != "sells P0"


def _verdict(more: Interval) -> Verdict:
    if more.value <= 0.0:
        return "holds"
    # One seed has no interval, and proves nothing.
    return "sells P0" if not math.isnan(more.low) and more.low > 0.0 else "open"


def _worst(rows: Sequence[GateRow]) -> Verdict:
    verdicts = {row.verdict for row in rows}
    return "sells P0" if "sells P0" in verdicts else "open" if "open" in verdicts else "holds"


def _pooled(ours: F64, theirs: F64) -> Interval:
    found = ratio_over_scenarios(ours, theirs)
    return Interval(found.value - 1, found.low - 1, found.high - 1)

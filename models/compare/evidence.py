"""What a comparison says about a policy, as the evidence that the gate of the registry judges.

Two opponents: the heuristic on which the policy sits, and the same heuristic with its targets of
utilisation moved until it costs as many node-hours as the policy. More nodes for everyone need no
learning, so a policy has to beat that, too.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from models.compare.families import HEURISTIC, family_of
from models.compare.pooled import cube
from models.compare.provenance import family_code, physics_hash
from models.compare.request import Request
from models.compare.standings import ALL, F64, NODE_HOURS, OBJECTIVE, P0, Figure
from models.registry.evidence import Cost, Evidence, Runs
from models.registry.gate import Limits, P0Verdict, p0_of_scenario
from models.sim.results.summary import Result
from models.statistics import Interval, mean, ratio_over_scenarios, relative_difference

KNOBS: Final = (0.8, 0.9, 1.1)
"""Factors on the targets of the heuristic that costs as much: -10 to +25 % node-hours."""
_EPSILON: Final = 0.02
"""How exactly the mean cost is to be known, as a share of the spend cap."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One scenario, or all together; the policy beside the heuristic, paired by seed."""

    scenario: str
    objective: Interval
    """J over the heuristic's, less one."""
    p0_minutes: Interval
    """P0 violation minutes more than the heuristic's, per seed."""
    node_hours: Interval
    """Over the heuristic's, less one."""
    verdict: P0Verdict


def constants(reference: str) -> tuple[str, ...]:
    """The entrants between which the heuristic that costs as much is interpolated."""
    return tuple(f"{reference}~{knob:g}" for knob in KNOBS)


def rows_of(results: Sequence[Result], request: Request, ours: str, limits: Limits) -> list[Row]:
    """Each scenario with intervals over the seeds; the last row over scenarios and seeds."""
    mine, theirs = (_figures(results, request, name) for name in (ours, request.reference))
    rows = []
    for at, scenario in enumerate(request.scenarios):
        more, verdict = p0_of_scenario(mine[P0][at], theirs[P0][at], limits)
        rows.append(
            Row(
                scenario=scenario.name,
                objective=relative_difference(mine[OBJECTIVE][at], theirs[OBJECTIVE][at]),
                p0_minutes=more,
                node_hours=relative_difference(mine[NODE_HOURS][at], theirs[NODE_HOURS][at]),
                verdict=verdict,
            )
        )
    together = Row(
        scenario=ALL,
        objective=_pooled(mine[OBJECTIVE], theirs[OBJECTIVE]),
        p0_minutes=mean((mine[P0] - theirs[P0]).mean(axis=0)),
        node_hours=_pooled(mine[NODE_HOURS], theirs[NODE_HOURS]),
        verdict=_worst(rows),
    )
    return [*rows, together]


def evidence_of(results: Sequence[Result], request: Request, ours: str, artefact: str) -> Evidence:
    """What the runs say about an artefact; `artefact` is its version."""
    names = [scenario.name for scenario in request.scenarios]
    figures = {name: _figures(results, request, name) for name in request.controllers}
    mine, theirs = figures.pop(ours), figures[request.reference]
    lines = [(one[NODE_HOURS], one[OBJECTIVE] - one[NODE_HOURS]) for one in figures.values()]
    equal = at_cost(lines, float(mine[NODE_HOURS].sum()))
    rows = [row for row in results if row.controller == ours]
    actions = sum(row.scaling_actions for row in rows)
    overruns = [row.budget_overruns for row in rows]
    return Evidence(
        artefact=artefact,
        world_sha256=physics_hash(request.cluster),
        code_sha256=family_code(family_of(HEURISTIC)),
        objective=_runs(names, mine[OBJECTIVE], theirs[OBJECTIVE]),
        equal_cost=_runs(names, mine[OBJECTIVE], equal),
        p0_minutes=_runs(names, mine[P0], theirs[P0]),
        budget_overruns=None if None in overruns else sum(filter(None, overruns)),
        spend_overruns=sum(row.overspend > 0 for row in rows),
        oscillation=sum(row.reversals for row in rows) / max(actions, 1),
        cost=Cost(trajectories=[row.spend_cap_share for row in rows], cap=1.0, epsilon=_EPSILON),
    )


def at_cost(lines: Sequence[tuple[F64, F64]], cost: float) -> F64:
    """[scenarios, seeds] J of the heuristic between two knobs, where it costs `cost` in sum.

    `lines` has node-hours and violations of each knob. Violations fall by a factor rather than by
    an amount from one knob to the next, so their logarithm is interpolated. Beyond the ends the
    last knob stands for itself.
    """
    # Of knobs that cost the same, the one that violates least.
    best: dict[float, tuple[F64, F64]] = {}
    for line in sorted(lines, key=lambda one: float(one[1].sum()), reverse=True):
        best[float(line[0].sum())] = line
    totals, ordered = sorted(best), [best[total] for total in sorted(best)]
    if len(ordered) == 1:
        return ordered[0][0] + ordered[0][1]
    place = float(np.interp(cost, totals, np.arange(len(totals))))
    first = min(int(place), len(ordered) - 2)
    share = place - first
    (hours, violations), (more_hours, fewer) = ordered[first], ordered[first + 1]
    between = np.expm1((1.0 - share) * np.log1p(violations) + share * np.log1p(fewer))
    found: F64 = (1.0 - share) * hours + share * more_hours + between
    return found


def _figures(results: Sequence[Result], request: Request, name: str) -> dict[Figure, F64]:
    """[scenarios, seeds] each."""
    return {one: cube(results, request, name, one) for one in (OBJECTIVE, P0, NODE_HOURS)}


def _runs(names: list[str], candidate: F64, incumbent: F64) -> Runs:
    return Runs(scenarios=names, candidate=candidate.tolist(), incumbent=incumbent.tolist())


def _worst(rows: Sequence[Row]) -> P0Verdict:
    verdicts = {row.verdict for row in rows}
    return "sells P0" if "sells P0" in verdicts else "open" if "open" in verdicts else "holds"


def _pooled(ours: F64, theirs: F64) -> Interval:
    found = ratio_over_scenarios(ours, theirs)
    return Interval(found.value - 1, found.low - 1, found.high - 1)

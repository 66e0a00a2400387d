"""Conservation of requests, node capacity and billed nodes."""

from typing import TYPE_CHECKING

import numpy as np

from models.compare.hpa_worlds import HpaWorld, busy_world
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.state import BACKLOG
from models.sim.world import World
from models.validate.audit import broken_invariants, flow_residuals
from models.validate.section import Check, Draw, Effort, Plot, Section

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TOLERANCE = 1e-5
"""Rows over apps are float32."""
# A recount in Python takes far longer than a tick.
_AUDIT_EVERY = 5


def examine(effort: Effort) -> Section:
    """Run a world with every kind of event, and recount it regularly."""
    run = HpaWorld(busy_world(with_apps(load_sim_cluster(), effort.conservation_apps), 2))
    residuals, problems = _recount(run, effort.conservation_ticks)
    # Each audit recounts two environments.
    audits = 2 * effort.conservation_ticks // _AUDIT_EVERY
    worst = max(residuals)
    # The audit's lines are sorted into checks by their texts.
    over = [line for line in problems if "above its allocatable" in line or "may have" in line]
    billed = [line for line in problems if "billed" in line]
    rest = [line for line in problems if line not in (*over, *billed)]
    checks = [
        Check("arrivals = served + failed + queued, worst app and tick", f"{worst:.1e} relative",
              f"< {_TOLERANCE:g}", worst < _TOLERANCE),
        Check("no node above allocatable", _found(over, audits), "none", not over),
        Check("billed = existing nodes", _found(billed, audits), "none", not billed),
        Check("pods, queue, rings and lists agree", _found(rest, audits), "none", not rest),
    ]  # fmt: skip
    return Section(
        "Conservation",
        f"{effort.conservation_apps:,} apps under HPA with an event of every kind; everything is "
        "recounted from the groups of pods and compared with the counts that the kernels maintain.",
        checks,
        [Plot("largest relative residual of an app's requests, by tick", _draw(residuals))],
    )


def _recount(run: HpaWorld, ticks: int) -> tuple[list[float], list[str]]:
    residuals: list[float] = []
    problems: list[str] = []
    for tick in range(ticks):
        world = run.world
        backlog = world.state.flow[:, BACKLOG].astype(np.float64)
        requests = world.accounts.minute_requests.astype(np.float64)
        run.run(1)
        if not _minute_closed(world):
            residuals.append(float(flow_residuals(world, backlog, requests).max()))
        if tick % _AUDIT_EVERY == 0:
            problems += broken_invariants(world)
    return residuals, problems


def _minute_closed(world: World) -> bool:
    """The minute's sums are reset at its end, so there is nothing to compare."""
    return world.tick % int(world.given.rules.physics["ticks_per_minute"][0]) == 0


def _found(problems: list[str], audits: int) -> str:
    if problems:
        return f"{len(problems)}, first: {problems[0]}"
    return f"none in {audits} audits"


def _draw(residuals: list[float]) -> Draw:
    def draw(axis: "Axes") -> None:
        axis.semilogy(np.maximum(residuals, 1e-12))
        axis.axhline(_TOLERANCE, linestyle="--", color="C1")
        axis.set_xlabel("tick")

    return draw

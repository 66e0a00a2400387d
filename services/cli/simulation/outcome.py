"""A finished run, and its figures as people read them."""

from typing import NamedTuple

from models.sim.results.findings import Finding
from models.sim.results.recording import Recording
from models.sim.results.summary import Result
from models.sim.world import World


class Outcome(NamedTuple):
    """A finished run and everything there is to tell about it."""

    world: World
    world_hash: str
    recording: Recording
    findings: list[Finding]
    result: Result
    command: str
    """Repeats the run."""


def figures(result: Result) -> list[tuple[str, str]]:
    """The figures of a result as people read them."""
    minutes = result.violation_minutes
    overruns = result.budget_overruns
    return [
        *((f"violation minutes {name}", f"{value:,.1f}") for name, value in minutes.items()),
        ("PW, weighted by priority", f"{result.pw:,.1f}"),
        ("J = PW + node-hours", f"{result.objective:,.1f}"),
        ("node-hours", f"{result.node_hours:,.1f}"),
        ("money", f"{result.money:,.0f} ({result.spend_cap_share:.1%} of the spend cap)"),
        ("p99 of a P0 app, mean", f"{result.latency_p99_ms:,.0f} ms"),
        ("CPU, memory in use", f"{result.cpu_utilisation:.1%}, {result.memory_utilisation:.1%}"),
        ("scaling actions", f"{result.scaling_actions:,}"),
        ("reversals", f"{result.reversals:,} ({result.oscillation_rate:.2%} of the actions)"),
        ("loops per day", f"{result.loops_per_day:,.0f}"),
        ("pods started, stopped", f"{result.pods_started:,}, {result.pods_stopped:,}"),
        ("most pods pending", f"{result.max_pending_pods:,}"),
        ("need to ready, median", f"{result.need_to_ready_p50_s:,.0f} s"),
        ("need to ready, p95", f"{result.need_to_ready_p95_s:,.0f} s"),
        ("CPU held by P3 while P0 waits", _p3_share(result, result.p3_share_while_p0_waits)),
        (
            "the same, of the pools P0 waits for",
            _p3_share(result, result.p3_share_of_p0_pools_while_p0_waits),
        ),
        ("unscored transactions", f"{result.unscored_transactions:,.0f}"),
        ("evictions, preemptions", f"{result.evictions:,}, {result.preemptions:,}"),
        ("restarts", f"{result.restarts:,}"),
        ("decreases on missing data", f"{result.missing_data_decreases:,}"),
        ("budget overruns", "no budgets" if overruns is None else f"{overruns:,}"),
    ]


def _p3_share(result: Result, share: float) -> str:
    if result.p0_wait_ticks == 0:
        return "P0 never waited"
    return f"{share:.1%} (over {result.p0_wait_ticks} ticks)"

"""Need-to-ready times compared with those that the provisioner is calibrated to."""

import statistics
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from models.cluster.arrays import I64
from models.compare.failure_modes import CASCADE, STAMPEDE, measure
from models.compare.hpa_worlds import HpaWorld
from models.sim.accounting import WAIT_BINS
from models.sim.config.physics import load_sim_cluster
from models.sim.config.scenario import load_scenario
from models.sim.results.failures import FailureWatch, setting_of
from models.sim.results.findings import FailureName, Finding
from models.sim.results.recording import Recorder
from models.sim.results.summary import quantile_s
from models.sim.world import World
from models.validate.section import Cell, Check, Draw, Effort, Listing, Plot, Section
from models.validate.worlds import plain_apps, still_cluster, still_scenario

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The ranges that the provisioner is calibrated to, see docs/concepts/simulated-cluster.md.
_IDLE_S = (30.0, 60.0)
_STAMPEDE_S = (180.0, 240.0)
_CASCADE_S = (240.0, 480.0)
_IDLE_SEEDS = 40


class _Waits(NamedTuple):
    """Pods by ticks from need to ready."""

    name: str
    pods: I64
    """[WAIT_BINS]."""


def examine(effort: Effort) -> Section:
    """Measure an idle provisioner, a stampede of one domain and a cascade, under HPA."""
    seeds = list(range(effort.seeds))
    cluster = load_sim_cluster()
    figures = measure(cluster, "hpa", seeds, lambda _steps: None)
    idle = _idle()
    found = (idle, _episode(STAMPEDE, "stampede", seeds), _episode(CASCADE, "cascade", seeds))
    idle_s = quantile_s(idle.pods, 0.5, cluster.tick_seconds)
    checks = [
        _check("idle request, median", [idle_s], _IDLE_S),
        _check("one-domain stampede, 95th percentile", figures.stampede_s, _STAMPEDE_S),
        _check("cascade, 95th percentile", figures.cascade_s, _CASCADE_S),
    ]
    columns = ("pods bound in", "pods", "p50 s", "p90 s", "p95 s", "p99 s")
    rows: list[tuple[Cell, ...]] = [
        (w.name, int(w.pods.sum()), *_quantiles(w.pods, cluster.tick_seconds)) for w in found
    ]
    return Section(
        "From need to ready",
        "Provisioning, image, start and readiness together. Idle: one app wants four pods more "
        f"than its pool has room for ({_IDLE_SEEDS} seeds). Stampede and cascade: the shipped "
        f"scenarios under HPA at full size, {len(seeds)} seeds, over the accounted part as `hirl "
        "world failures` takes them; the median over seeds is judged. Table and plots show only "
        "the pods of the domains hit, bound while the failure lasts as the live view names it.",
        checks,
        [Plot(f"{w.name}: share of pods not yet ready", _draw(w.pods)) for w in found],
        Listing(columns, rows),
    )


def _check(name: str, seconds: list[float], range_s: tuple[float, float]) -> Check:
    low, high = range_s
    middle = statistics.median(seconds)
    spread = f" ({min(seconds):.0f} to {max(seconds):.0f})" if len(seconds) > 1 else ""
    return Check(
        f"need to ready: {name}",
        f"{middle:.0f} s{spread}",
        f"{low:.0f} to {high:.0f} s",
        low <= middle <= high,
    )


def _idle() -> _Waits:
    """One app needs four more pods; two pods fill a node, so it needs two nodes."""
    population = plain_apps(1, cpu_request=30, start_replicas=32)
    # A full pool with quota to grow.
    cluster = still_cluster(64, headroom=0.0, max_nodes=2.0)
    world = World(cluster, still_scenario(), list(range(_IDLE_SEEDS)), population)
    plan = world.hold()
    plan.replicas[:] += 4
    # Long enough for every pod to get a node.
    for _ in range(WAIT_BINS):
        world.step(plan)
    pods = world.accounts.waits.sum(axis=(0, 1))
    return _Waits("idle", pods)


def _episode(scenario: str, name: FailureName, seeds: list[int]) -> _Waits:
    cluster = load_sim_cluster()
    run = HpaWorld(World(cluster, load_scenario(scenario, cluster), seeds))
    recorders = [Recorder(run.world, e) for e in range(len(seeds))]
    watches = [FailureWatch(setting_of(run.world)) for _ in seeds]

    def look(world: World) -> None:
        for recorder, watch in zip(recorders, watches, strict=True):
            recorder(world)
            watch.look(recorder.recording, world.tick - 1)

    run.run(run.world.timeline.total_ticks, look)
    pods = np.zeros(WAIT_BINS, np.int64)
    for recorder, watch in zip(recorders, watches, strict=True):
        # A seed may have several episodes; the slowest one is shown.
        worst = _worst([f for f in watch.findings(recorder.recording) if f.name == name])
        if worst is not None:
            hit = [cluster.domain_names.index(domain) for domain in worst.domains]
            bound = recorder.recording.waits[worst.tick : worst.last_tick + 1, hit]
            pods += bound.sum(axis=(0, 1), dtype=np.int64)
    return _Waits(name, pods)


def _worst(findings: list[Finding]) -> Finding | None:
    return max(findings, key=lambda f: f.numbers["need_to_ready_p95_s"], default=None)


def _quantiles(pods: I64, tick_s: float) -> list[float]:
    return [quantile_s(pods, share, tick_s) for share in (0.5, 0.9, 0.95, 0.99)]


def _draw(pods: I64) -> Draw:
    def draw(axis: "Axes") -> None:
        left = 1 - np.cumsum(pods) / max(1, pods.sum())
        axis.step(10 * np.arange(pods.size), left, where="post")
        axis.set_xlabel("seconds")

    return draw

"""Fit the population's parameters to public tables and write them with their provenance.

Pure functions of the tables: the same folder gives the same file. `fit_series` fits everything that
depends on time (daily shapes, noise, bursts).
"""

from collections import Counter
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import yaml

from models.cluster.arrays import F64
from models.sim.population.fit_series import even_quantiles, fit_bursts, fit_noise, fit_profiles
from models.sim.population.fit_tables import (
    ALIBABA_EDGES,
    ALIBABA_SERVICES,
    AZURE_DURATIONS,
    AZURE_PROFILES,
    BOOTS,
    IBM,
    Table,
    provenance,
)
from models.sim.population.fitted import (
    BootContention,
    CallStructure,
    Fitted,
    LogNormal,
    MinReplicas,
    PodSizes,
    ProcessMemory,
    ServiceTimes,
    Traffic,
)

COMMAND: Final = "hirl world fit --traces DIR"
_DIGITS: Final = 4
"""Significant digits that are kept: more than the tables support, and still readable."""
# Once a minute on average.
_BUSY_14_DAYS: Final = 14 * 1440
_LEAST_SIZE_APPS: Final = 3
_MOST_CALLS: Final = 8
_REAL_CALL: Final = 0.05
"""Edges with fewer calls per request are rare variants of a graph, not its structure."""


def fit(traces: Path) -> Fitted:
    """All parameters from the tables below `traces`."""
    fitted = Fitted(
        command=COMMAND,
        pod_sizes=fit_pod_sizes(traces),
        min_replicas=fit_min_replicas(traces),
        service_times=fit_service_times(traces),
        memory=fit_memory(traces),
        traffic=fit_traffic(traces),
        profiles=fit_profiles(traces),
        noise=fit_noise(traces),
        bursts=fit_bursts(traces),
        calls=fit_calls(traces),
        boot=fit_boot(traces),
    )
    # Rounded here and not when writing, so that a new fit equals the file of an old one.
    return msgspec.convert(_rounded(msgspec.to_builtins(fitted)), Fitted)


def write(fitted: Fitted, file: Path) -> None:
    """Write the parameters as readable YAML that `load_fitted` reads back."""
    plain = msgspec.to_builtins(fitted)
    text = yaml.dump(
        plain,
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=None,
        width=100,
        allow_unicode=True,
    )
    head = (
        "# Parameters of the generated apps, fitted to real tables. Do not edit: reproduce by\n"
        f"#   {fitted.command}\n"
        "# Quantiles are values at evenly spaced probabilities from 0 to 1.\n"
    )
    file.write_text(head + text, encoding="utf-8")


class _Dumper(yaml.SafeDumper):
    """Repeats values instead of using anchors, which are hard to read."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the base class names it
        return True


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value


def fit_pod_sizes(traces: Path) -> PodSizes:
    """The joint distribution of CPU and memory: they come in fixed combinations."""
    table = Table(traces, IBM)
    pairs = zip(table.numbers("cpu_vcpu").tolist(), table.numbers("mem_gb").tolist(), strict=True)
    counts = {size: n for size, n in Counter(pairs).items() if n >= _LEAST_SIZE_APPS}
    sizes = sorted(counts)
    total = sum(counts.values())
    statistic = f"share of apps by (cpu_vcpu, mem_gb), sizes of >= {_LEAST_SIZE_APPS} apps"
    return PodSizes(
        sources=(provenance(IBM, total, statistic),),
        cpu_cores=tuple(cpu for cpu, _ in sizes),
        memory_gib=tuple(memory for _, memory in sizes),
        share=tuple(counts[size] / total for size in sizes),
    )


def fit_min_replicas(traces: Path) -> MinReplicas:
    """The configured minimum; fractions are apps that changed it meanwhile, rounded up."""
    values = np.ceil(Table(traces, IBM).numbers("min_scale")).astype(int)
    replicas, counts = np.unique(values, return_counts=True)
    return MinReplicas(
        sources=(provenance(IBM, len(values), "share of apps by ceil(min_scale)"),),
        replicas=tuple(replicas.tolist()),
        share=tuple((counts / len(values)).tolist()),
    )


def fit_service_times(traces: Path) -> ServiceTimes:
    """Log-normal fits of interactive functions, and of functions fed by queues."""
    table = Table(traces, AZURE_DURATIONS)
    trigger, median = table.words("trigger"), table.numbers("dur_ms_p50")
    ratio = table.numbers("dur_ms_p99") / np.maximum(median, 1)
    interactive = (trigger == "http") & (median > 0)
    queued = np.isin(trigger, ("queue", "event", "storage", "orchestration")) & (median > 0)
    statistic = "log-normal of dur_ms_p50 above 0 (http; queue, event, storage, orchestration)"
    return ServiceTimes(
        sources=(provenance(AZURE_DURATIONS, int((interactive | queued).sum()), statistic),),
        interactive=_log_normal(median[interactive], ratio[interactive]),
        queued=_log_normal(median[queued], ratio[queued]),
    )


def _log_normal(medians: F64, ratio: F64) -> LogNormal:
    # The mean of the logarithms is the logarithm of a log-normal's median.
    logs = np.log(medians)
    return LogNormal(
        median_ms=float(np.exp(logs.mean())),
        log_std=float(logs.std()),
        tail_ratio=even_quantiles(np.maximum(ratio, 1)),
    )


def fit_memory(traces: Path) -> ProcessMemory:
    """Level and growth of a process's memory."""
    table = Table(traces, AZURE_DURATIONS)
    mean = table.numbers("mem_mb")
    low, high = table.numbers("mem_mb_pct5"), table.numbers("mem_mb_pct99")
    use = (mean > 0) & (low > 0)
    statistic = "log-normal of mem_mb; growth = 1 - mem_mb_pct5 / mem_mb_pct99"
    return ProcessMemory(
        sources=(provenance(AZURE_DURATIONS, int(use.sum()), statistic),),
        median_mb=float(np.exp(np.log(mean[use]).mean())),
        log_std=float(np.log(mean[use]).std()),
        growth=even_quantiles(np.maximum(1 - low[use] / high[use], 0)),
    )


def fit_traffic(traces: Path) -> Traffic:
    """Invocations of functions called at least once a minute, over their median."""
    totals = Table(traces, AZURE_PROFILES).lists("counts").sum(axis=1)
    busy = totals[totals >= _BUSY_14_DAYS]
    # The last point is the 99.5th percentile: the maximum would depend on one function.
    probabilities = np.minimum(np.linspace(0, 1, 41), 0.995)
    quantiles = np.quantile(busy, probabilities) / np.median(busy)
    statistic = f"quantiles of invocations >= {_BUSY_14_DAYS} in 14 days over their median"
    return Traffic(
        sources=(provenance(AZURE_PROFILES, len(busy), statistic),),
        over_median=tuple(quantiles.tolist()),
    )


def fit_calls(traces: Path) -> CallStructure:
    """Depth and size from services, fan-out and call rates from their edges."""
    services, edges = Table(traces, ALIBABA_SERVICES), Table(traces, ALIBABA_EDGES)
    depth = services.numbers("max_depth").astype(int)
    # Other targets are caches, databases and calls out of the trace: leaves.
    inner = np.isin(edges.words("target_label"), ("normal", "relay"))
    rate = edges.numbers("calls_per_request")
    real = inner & (rate >= _REAL_CALL)
    callers = zip(edges.words("service")[real], edges.words("source")[real], strict=True)
    fan_out = np.array(list(Counter(callers).values()))
    statistic = f"fan-out and calls of service edges >= {_REAL_CALL} per request; share of leaves"
    return CallStructure(
        sources=(
            provenance(ALIBABA_SERVICES, len(depth), "share by max_depth; nodes per request"),
            provenance(ALIBABA_EDGES, len(rate), statistic),
        ),
        depth_share=_shares(depth),
        fan_out_share=_shares(fan_out),
        calls_per_request=even_quantiles(np.minimum(rate[real], _MOST_CALLS)),
        leaf_share=float(1 - inner.mean()),
        nodes_per_request=even_quantiles(services.numbers("mean_nodes_per_request")),
    )


def _shares(values: F64) -> tuple[float, ...]:
    """Shares of the values 1, 2, ..; the last class includes all larger ones."""
    counts = np.bincount(np.clip(values, 1, _MOST_CALLS), minlength=_MOST_CALLS + 1)[1:]
    return tuple((counts / counts.sum()).tolist())


def fit_boot(traces: Path) -> BootContention:
    """Median boot time by concurrent boots, and the saturating curve through it."""
    table = Table(traces, BOOTS)
    seconds, together = table.numbers("boot_time_s"), table.numbers("concurrent_boots").astype(int)
    concurrent = np.unique(together)
    medians = np.array([np.median(seconds[together == n]) for n in concurrent])
    # The first entry is a boot on its own, which all others are compared with.
    slow_down = medians / medians[0]
    # y = limit x / (x + half) is a line in 1/x: 1/y = 1/limit + half/limit / x.
    slope, intercept = np.polyfit(1 / (concurrent[1:] - 1.0), 1 / (slow_down[1:] - 1), 1)
    return BootContention(
        sources=(provenance(BOOTS, len(seconds), "median boot_time_s by concurrent_boots"),),
        concurrent=tuple(concurrent.tolist()),
        slow_down=tuple(slow_down.tolist()),
        limit=float(1 / intercept),
        half=float(slope / intercept),
    )

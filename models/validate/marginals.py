"""The generated apps compared with the public tables that they were fitted to."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from models.cluster.arrays import F64
from models.sim.apps import Apps
from models.sim.config.physics import SimCluster, load_sim_cluster
from models.sim.population.fitted import Fitted, load_fitted
from models.sim.population.generate import generate
from models.validate.section import Check, Draw, Effort, Listing, Plot, Section

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_SHARE = 0.04
"""1,550 draws: three standard errors of a share of one half."""
_SKEW = 2.0
_STANDARD_ERRORS = 4.0
"""By chance the largest of two dozen shares stays below this."""


def examine(_effort: Effort, traces: Path | None) -> Section:
    """Compare shares and quantiles of the default population with the fit and the tables."""
    fitted, cluster = load_fitted(), load_sim_cluster()
    apps = generate(cluster).apps
    sizes, times = _sizes(fitted, apps), _service_times(fitted, apps)
    checks = [
        sizes,
        _minima(fitted, apps),
        times,
        _profiles(cluster, fitted, apps),
        _skew(fitted, apps),
        *_refit(fitted, traces),
    ]
    tables = (
        "the tables themselves are compared, too"
        if traces
        else ("without the tables (--traces DIR or HIRL_TRACES) only their fit is compared")
    )
    return Section(
        "Generated apps compared with real tables",
        f"The fit names the origin of each table and the statistic; {tables}.",
        checks,
        [
            Plot("CPU of a pod: share of apps up to it", _size_plot(fitted, apps)),
            Plot("service time: share of apps up to it", _time_plot(fitted, apps)),
            Plot("day profiles over the day's mean (fitted, by weight)", _day_plot(fitted)),
            Plot("traffic of apps over their median, by rank", _skew_plot(fitted, apps)),
        ],
        Listing(
            ("table", "rows", "statistic"),
            [(s.file, s.rows, s.statistic) for s in fitted.pod_sizes.sources
             + fitted.min_replicas.sources + fitted.service_times.sources
             + fitted.profiles.sources + fitted.traffic.sources],
        ),
    )  # fmt: skip


def _sizes(fitted: Fitted, apps: Apps) -> Check:
    cores, real = _cpu_shares(fitted)
    # Requests are float32, the fitted sizes float64.
    made = np.array([(np.isclose(apps.cpu_request, core)).mean() for core in cores])
    worst = float(np.abs(made - real).max())
    return Check("pod sizes, share of apps by CPU", f"{worst:.1%} apart at most",
                 f"< {_MOST_SHARE:.0%}", worst < _MOST_SHARE)  # fmt: skip


def _cpu_shares(fitted: Fitted) -> tuple[F64, F64]:
    cpu, share = np.array(fitted.pod_sizes.cpu_cores), np.array(fitted.pod_sizes.share)
    cores = np.unique(cpu)
    return cores, np.array([share[cpu == core].sum() for core in cores]) / share.sum()


def _minima(fitted: Fitted, apps: Apps) -> Check:
    """Only minima above two are comparable: generated apps have at least one, P0 and P1 two."""
    table = fitted.min_replicas
    real = sum(s for n, s in zip(table.replicas, table.share, strict=True) if n > 2)
    made = float((apps.min_replicas > 2).mean())
    return Check("minimum replicas above two, share of apps", f"{made:.1%}, real {real:.1%}",
                 "within 1.5 %", abs(made - real) < 0.015)  # fmt: skip


def _service_times(fitted: Fitted, apps: Apps) -> Check:
    """Compare the median only: service times are truncated to meet the latency targets."""
    made = float(np.median(1000 * (apps.cpu_seconds + apps.io_seconds)))
    table = fitted.service_times.interactive
    # 1.645 standard deviations enclose 90 % of a normal distribution.
    low, high = (table.median_ms * math.exp(z * table.log_std) for z in (-1.645, 1.645))
    return Check("service time, median of the apps", f"{made:.1f} ms",
                 f"real 5 to 95 %: {low:.1f} to {high:,.0f} ms", low < made < high)  # fmt: skip


def _profiles(cluster: SimCluster, fitted: Fitted, apps: Apps) -> Check:
    """Of queue-fed apps only: user-facing apps do not get the extreme shapes."""
    weight = np.array([shape.weight for shape in fitted.profiles.shapes])
    fed = [d.slo.kind == "throughput" for d in cluster.domains]
    profile = apps.day_profile[np.array(fed)[apps.domain]]
    made = np.bincount(profile, minlength=weight.size) / profile.size
    share = weight / weight.sum()
    # Over the standard error of a share, because rare shapes differ less by chance.
    errors = float((np.abs(made - share) / np.sqrt(share * (1 - share) / profile.size)).max())
    return Check(
        f"daily profiles of {profile.size} queue-fed apps, share by shape",
        f"{errors:.1f} standard errors apart at most",
        f"< {_STANDARD_ERRORS:g}",
        errors < _STANDARD_ERRORS,
    )


def _skew(fitted: Fitted, apps: Apps) -> Check:
    real = float(np.interp(0.9, np.linspace(0, 1, 41), fitted.traffic.over_median))
    # By pods: the fitted skew is applied to them, and traffic follows.
    made = float(np.quantile(apps.start_replicas, 0.9) / np.median(apps.start_replicas))
    return Check("traffic skew, 90th percentile over median of an app's pods",
                 f"{made:.1f}, real {real:.1f}", f"within a factor of {_SKEW:g}",
                 1 / _SKEW < made / real < _SKEW)  # fmt: skip


def _refit(fitted: Fitted, traces: Path | None) -> list[Check]:
    """Whether the tables still give the committed parameters."""
    if traces is None:
        return []
    # Only fitting needs pyarrow and scipy.
    from models.sim.population.fit import fit  # noqa: PLC0415

    same = fit(traces) == fitted
    return [Check("the tables give the committed parameters",
                  "all equal" if same else "different", "all equal", same)]  # fmt: skip


def _size_plot(fitted: Fitted, apps: Apps) -> Draw:
    cores, real = _cpu_shares(fitted)

    def draw(axis: "Axes") -> None:
        axis.step(cores, np.cumsum(real), where="post", label="real")
        _cumulative(axis, apps.cpu_request, "generated")
        axis.set_xscale("log", base=2)
        axis.set_xlabel("cores")
        axis.legend()

    return draw


def _time_plot(fitted: Fitted, apps: Apps) -> Draw:
    def draw(axis: "Axes") -> None:
        z = np.linspace(-2.5, 2.5, 101)
        normal = np.cumsum(np.exp(-z * z / 2))
        for name in ("interactive", "queued"):
            table = getattr(fitted.service_times, name)
            ms = table.median_ms * np.exp(table.log_std * z)
            axis.plot(ms, normal / normal[-1], label=f"real, {name}")
        _cumulative(axis, 1000 * (apps.cpu_seconds + apps.io_seconds), "generated")
        axis.set_xscale("log")
        axis.set_xlabel("ms")
        axis.legend()

    return draw


def _day_plot(fitted: Fitted) -> Draw:
    def draw(axis: "Axes") -> None:
        hours = np.arange(1440) / 60
        most = max(shape.weight for shape in fitted.profiles.shapes)
        for shape, curve in zip(fitted.profiles.shapes, fitted.profiles.curves(), strict=True):
            axis.plot(hours, curve, alpha=0.2 + 0.8 * shape.weight / most)
        axis.set_xlabel("hour")

    return draw


def _skew_plot(fitted: Fitted, apps: Apps) -> Draw:
    def draw(axis: "Axes") -> None:
        real = fitted.traffic.over_median
        axis.semilogy(np.linspace(0, 1, len(real)), real, label="real, requests")
        share = np.linspace(0, 1, 101)
        for label, column in (("pods", apps.start_replicas), ("requests", apps.mean_rps)):
            axis.semilogy(share, np.quantile(column, share) / np.median(column),
                          label=f"generated, {label}")  # fmt: skip
        axis.set_xlabel("share of apps")
        axis.legend()

    return draw


def _cumulative(axis: "Axes", values: NDArray[np.floating], label: str) -> None:
    axis.step(np.sort(values), np.arange(1, values.size + 1) / values.size, label=label)

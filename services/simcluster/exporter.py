"""Metrics of every app in Prometheus' text format, under the names used in real clusters.

Requests and latency are named as a service mesh or the app exports them, CPU and memory as
cAdvisor does, pods as kube-state-metrics does. Pods are summed by app. Counters grow tick by tick,
so rates are right when a simulated second takes one second.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F64, I8, I32, Mask
from models.sim.config.script import EXPORTER, KUBELET, OUTAGE_MISSING, OUTAGE_STALE, OUTAGE_ZERO
from models.sim.observe import outages_now
from models.sim.state import EXPORTED, SAMPLE_RING
from services.simcluster.cluster import SimulatedCluster

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
GIB: Final = 1024.0**3
MIB: Final = 1024.0**2


class _Source(IntEnum):
    """Exporter of a metric; exporters fail independently of each other."""

    APP = EXPORTER
    CADVISOR = KUBELET
    API_SERVER = -1
    """Never fails: samples are lost, what the API server reports is always there."""


class _Series(NamedTuple):
    """One metric with one set of extra labels; one value per app."""

    name: str
    kind: str
    about: str
    values: F64
    source: _Source
    labels: str = ""
    app_label: str = "app"


_POOL_METRICS: Final = {
    "ready": "Nodes of a pool that take pods",
    "booting": "Nodes of a pool that boot",
    "requested": "Nodes of a pool that are requested and do not boot yet",
    "quota": "Nodes that a pool may have",
}


class Exporter:
    """Keeps the counters: the cluster may advance many times between two scrapes."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        apps = len(cluster.names)
        self._succeeded, self._failed, self._cpu_seconds = np.zeros((3, apps))

    def count_tick(self) -> None:
        """Add what happened in the tick that has just ended."""
        seconds = float(self._cluster.world.cluster.tick_seconds)
        # Where zeros are reported, counters stop: falling ones would look like a restart to rate().
        sample = self._exported()
        # Clipped, because no counter may fall.
        failed = sample[rows.RPS] * np.clip(sample[rows.ERRORS], 0, 1)
        self._failed += failed * seconds
        self._succeeded += (sample[rows.RPS] - failed) * seconds
        self._cpu_seconds += sample[rows.CPU] * seconds

    def text(self) -> str:
        """The page that Prometheus scrapes."""
        return "".join(self._lines())

    def _lines(self) -> Iterator[str]:
        status = self._cluster.world.state.status[0]
        active = status[rows.ACTIVE] == 1
        reporting = {source: active & self._reporting(source) for source in _Source}
        namespaces = self._namespaces(status)
        described = ""
        for series in self._series(status):
            # The format wants one HELP and TYPE per name, before all of its series.
            if series.name != described:
                described = series.name
                yield f"# HELP {series.name} {series.about}\n# TYPE {series.name} {series.kind}\n"
            values = series.values.tolist()
            # Prometheus has no null: in an outage the series is absent.
            for app in np.flatnonzero(reporting[series.source]).tolist():
                names = f'{series.app_label}="{self._cluster.names[app]}",{namespaces[app]}'
                yield f"{series.name}{{{names}{series.labels}}} {values[app]!r}\n"
        yield from self._pool_lines()

    def _namespaces(self, status: I32) -> list[str]:
        domains = self._cluster.world.cluster.domain_names
        return [f'namespace="{domains[domain]}"' for domain in status[rows.DOMAIN].tolist()]

    def _series(self, status: I32) -> Iterator[_Series]:
        yield from self._traffic()
        yield from self._use()
        yield from _pods(status.astype(np.float64))

    def _traffic(self) -> Iterator[_Series]:
        name, about = "http_requests_total", "Requests that arrived, by status"
        app, sample = _Source.APP, self._exported()
        yield _Series(name, "counter", about, self._succeeded, app, ',code="200"')
        yield _Series(name, "counter", about, self._failed, app, ',code="500"')
        name, about = "http_request_duration_seconds", "Time to an answer in the last tick"
        yield _Series(name, "gauge", about, sample[rows.P50], app, ',quantile="0.5"')
        yield _Series(name, "gauge", about, sample[rows.P99], app, ',quantile="0.99"')

    def _use(self) -> Iterator[_Series]:
        name, about = "container_cpu_usage_seconds_total", "CPU time used"
        yield _Series(name, "counter", about, self._cpu_seconds, _Source.CADVISOR)
        name, about = "container_memory_working_set_bytes", "Memory in use"
        memory = self._exported()[rows.MEMORY] * GIB
        yield _Series(name, "gauge", about, memory, _Source.CADVISOR)

    def _exported(self) -> F64:
        """[SAMPLES, A] of the tick that has just ended: scraping adds its own delay."""
        world = self._cluster.world
        sample: F64 = world.state.samples[0, (world.tick - 1) % SAMPLE_RING].astype(np.float64)
        mode = outages_now(world.given.script, world.state.env["tick"] - 1, EXPORTER)[0]
        sample[:EXPORTED, mode == OUTAGE_ZERO] = 0.0
        stale = mode == OUTAGE_STALE
        sample[:EXPORTED, stale] = world.state.stale[0][:, stale]
        return sample

    def _reporting(self, source: _Source) -> Mask:
        """[A] apps with a sample: neither an outage of the source nor a lost scrape hides it."""
        missing: Mask = self._cluster.observed_arrays().missing[0] == 1
        if source == _Source.API_SERVER:
            return np.ones_like(missing)
        failing = [self._outages(kind) == OUTAGE_MISSING for kind in (EXPORTER, KUBELET)]
        # What an outage explains is no lost scrape: the other source still answers.
        lost = missing & ~failing[0] & ~failing[1]
        reporting: Mask = ~lost & (self._outages(source) != OUTAGE_MISSING)
        return reporting

    def _outages(self, pipeline: int) -> I8:
        world = self._cluster.world
        mode: I8 = outages_now(world.given.script, world.state.env["tick"], pipeline)[0]
        return mode

    def _pool_lines(self) -> Iterator[str]:
        pools = self._cluster.observation().pools
        # The fields of pool-observed under their own names: as there, no node is counted twice.
        for name, about in _POOL_METRICS.items():
            metric = f"node_pool_{name}"
            yield f"# HELP {metric} {about}\n# TYPE {metric} gauge\n"
            for pool in pools:
                yield f'{metric}{{pool="{pool.pool}"}} {getattr(pool, name)}\n'


def _pods(status: F64) -> Iterator[_Series]:
    """Pods as the API server reports them."""
    api = _Source.API_SERVER
    gauges = (
        ("kube_deployment_spec_replicas", "Pods wanted", status[rows.REPLICAS]),
        ("kube_deployment_status_replicas_ready", "Ready pods", status[rows.READY]),
        (
            "kube_deployment_status_replicas_unavailable",
            "Pods that are not ready",
            # Pods without a node included, as in a real cluster; the collector subtracts them.
            status[rows.STARTING] + status[rows.PENDING],
        ),
    )
    for name, about, values in gauges:
        yield _Series(name, "gauge", about, values, api, app_label="deployment")
    name, about = "kube_pod_status_unschedulable", "Pods without a node"
    yield _Series(name, "gauge", about, status[rows.PENDING], api)
    name, about = "kube_pod_container_resource_requests", "Requested by one pod"
    cpu, memory = status[rows.CPU_REQUEST] / 1000.0, status[rows.MEMORY_REQUEST] * MIB
    yield _Series(name, "gauge", about, cpu, api, ',resource="cpu",unit="core"')
    yield _Series(name, "gauge", about, memory, api, ',resource="memory",unit="byte"')
    name, about = "kube_pod_container_status_restarts_total", "Container restarts"
    yield _Series(name, "counter", about, status[rows.RESTARTS], api)

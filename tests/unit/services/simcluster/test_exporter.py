"""Prometheus can parse the exporter's page, and the page agrees with the world."""

from itertools import pairwise
from typing import Literal

import msgspec
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from models.cluster import rows
from models.sim.config.events import MetricsOutage, Target
from models.sim.config.physics import with_physics
from models.sim.state import SAMPLE_RING
from models.sim.world import World
from services.collector.queries import load_queries
from services.simcluster.cluster import SimulatedCluster
from services.simcluster.exporter import Exporter
from services.simcluster.live import LiveCluster
from tests.unit.services.simcluster.simcluster_helpers import POOLS, request, simulated

Page = dict[tuple[str, str, str], float]


def page(exporter: Exporter) -> Page:
    """Values by metric, app and the values of all other labels but the namespace."""
    found: Page = {}
    for family in text_string_to_metric_families(exporter.text()):
        for sample in family.samples:
            labels = dict(sample.labels)
            app = labels.pop("app", "") or labels.pop("deployment", "")
            labels.pop("namespace", None)
            key = (sample.name, app, ",".join(labels.values()))
            assert key not in found
            found[key] = sample.value
    return found


def truth(cluster: SimulatedCluster, row: int, app: int) -> float:
    world = cluster.world
    return float(world.state.samples[0, (world.tick - 1) % SAMPLE_RING, row, app])


def outage(
    pipeline: Literal["exporter", "kubelet"], mode: Literal["missing", "zero", "stale"]
) -> MetricsOutage:
    target = Target(domains=("fraud",))
    return MetricsOutage(
        name="blind", target=target, pipeline=pipeline, mode=mode, at_minute=0.5, length_minutes=4
    )


def reporting_apps(cluster: SimulatedCluster) -> list[int]:
    return [
        app
        for app, missing in enumerate(cluster.observed_arrays().missing[0].tolist())
        if not missing
    ]


def test_counters_grow_by_the_traffic_and_cpu_time_of_a_tick() -> None:
    live = LiveCluster(simulated())
    for _ in range(4):
        live.advance()
    before = page(live.exporter)
    live.advance()
    after, cluster = page(live.exporter), live.cluster
    for app in reporting_apps(cluster)[:10]:
        name = cluster.names[app]
        requests = ("http_requests_total", name, "200")
        good = 10 * truth(cluster, rows.RPS, app) * (1 - truth(cluster, rows.ERRORS, app))
        if requests in before:
            assert after[requests] - before[requests] == pytest.approx(good, rel=1e-4)
            used = ("container_cpu_usage_seconds_total", name, "")
            assert after[used] - before[used] == pytest.approx(
                10 * truth(cluster, rows.CPU, app), rel=1e-4
            )
        slow = ("http_request_duration_seconds", name, "0.99")
        assert after[slow] == pytest.approx(truth(cluster, rows.P99, app))


@pytest.mark.parametrize("mode", [None, "zero", "stale"])
def test_the_collectors_queries_on_these_series_give_what_the_simulator_samples(
    mode: Literal["zero", "stale"] | None,
) -> None:
    """rate(), avg_over_time() and max_over_time() over 60 s, computed here from scraped pages."""
    world = simulated(*(() if mode is None else (outage("exporter", mode),))).world
    metrics = msgspec.structs.replace(
        world.cluster.physics.metrics, noise=0.0, missing_share=0.0, lag_s=0.0
    )
    assert metrics.window_s == load_queries().window_seconds
    cluster = with_physics(world.cluster, metrics=metrics)
    live = LiveCluster(SimulatedCluster(World(cluster, world.scenario, [1])))
    pages: list[Page] = []
    for _ in range(14):
        live.advance()
        pages.append(page(live.exporter))
    seen = live.cluster.observed_arrays().measured[0]
    for app, name in enumerate(live.cluster.names):
        for row, value in queried(pages, name).items():
            assert seen[row, app] == pytest.approx(value, rel=1e-3, abs=1e-6), (name, row)


def queried(pages: list[Page], name: str) -> dict[int, float]:
    """What the queries return for an app, by row of a sample."""
    begin, end, window = pages[-7], pages[-1], pages[-6:]
    good, failed = (
        (end[key] - begin[key]) / 60
        for key in (("http_requests_total", name, code) for code in ("200", "500"))
    )
    cpu = ("container_cpu_usage_seconds_total", name, "")
    ready = ("kube_deployment_status_replicas_ready", name, "")
    p50, p99 = (("http_request_duration_seconds", name, q) for q in ("0.5", "0.99"))
    return {
        rows.RPS: good + failed,
        rows.ERRORS: failed / max(good + failed, 1e-9),
        rows.CPU: (end[cpu] - begin[cpu]) / 60,
        rows.PODS: float(np.mean([found[ready] for found in window])),
        rows.P50: float(np.mean([found[p50] for found in window])),
        rows.P99: max(found[p99] for found in window),
        rows.MEMORY: end["container_memory_working_set_bytes", name, ""] / 2**30,
    }


def test_pods_are_exported_before_the_first_measurement() -> None:
    # Before the first step nothing has run, so only the API server knows about pods and nodes.
    first = page(Exporter(simulated()))
    names = {name for name, _, _ in first}
    assert "kube_deployment_spec_replicas" in names
    assert "node_pool_ready" in names
    assert "http_requests_total" not in names
    assert "container_cpu_usage_seconds_total" not in names


def test_no_node_of_a_pool_is_counted_twice() -> None:
    cluster = simulated()
    cluster.request_capacity(request(POOLS[0], 0, critical=1))
    cluster.advance()
    found = page(Exporter(cluster))
    pool = cluster.observation().pools[0]
    assert pool.booting + pool.requested == 1
    for state in ("ready", "booting", "requested", "quota"):
        assert found[f"node_pool_{state}", "", POOLS[0]] == getattr(pool, state)


def pages_in_outage(
    pipeline: Literal["exporter", "kubelet"], mode: Literal["missing", "zero", "stale"]
) -> tuple[str, list[Page]]:
    """A fraud app, and the pages of three ticks within an outage of that domain."""
    live = LiveCluster(simulated(outage(pipeline, mode)))
    fraud = next(name for name in live.cluster.names if name.startswith("fraud"))
    pages = []
    for _ in range(7):
        live.advance()
        pages.append(page(live.exporter))
    return fraud, pages[4:]


def test_an_exporter_that_is_gone_takes_its_series_along_and_no_others() -> None:
    fraud, pages = pages_in_outage("exporter", "missing")
    assert all(("http_requests_total", fraud, "200") not in found for found in pages)
    assert any(("container_cpu_usage_seconds_total", fraud, "") in found for found in pages)
    assert ("kube_deployment_spec_replicas", fraud, "") in pages[-1]


def test_an_exporter_that_answers_zero_stops_its_counters_while_cpu_goes_on() -> None:
    fraud, pages = pages_in_outage("exporter", "zero")
    series, cpu = (
        ("http_requests_total", fraud, "200"),
        ("container_cpu_usage_seconds_total", fraud, ""),
    )
    assert pages[0][series] == pages[2][series] > 0
    assert pages[2][cpu] > pages[0][cpu] > 0
    assert pages[2]["http_request_duration_seconds", fraud, "0.99"] == 0


def test_a_stuck_exporter_repeats_rates_and_latencies() -> None:
    fraud, pages = pages_in_outage("exporter", "stale")
    series, slow = (
        ("http_requests_total", fraud, "200"),
        ("http_request_duration_seconds", fraud, "0.99"),
    )
    steps = [after[series] - before[series] for before, after in pairwise(pages)]
    assert steps[0] == pytest.approx(steps[1], rel=1e-9)
    assert pages[0][slow] == pages[1][slow] == pages[2][slow] > 0


def test_an_outage_of_the_kubelet_removes_cpu_and_memory_only() -> None:
    fraud, pages = pages_in_outage("kubelet", "missing")
    assert all(("container_cpu_usage_seconds_total", fraud, "") not in found for found in pages)
    assert all(("container_memory_working_set_bytes", fraud, "") not in found for found in pages)
    assert any(("http_requests_total", fraud, "200") in found for found in pages)

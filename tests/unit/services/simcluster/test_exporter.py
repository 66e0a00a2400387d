"""Prometheus can parse the exporter's page, and the page agrees with the world."""

from typing import Literal

import pytest
from prometheus_client.parser import text_string_to_metric_families

from models.cluster import rows
from models.sim.config.events import MetricsOutage, Target
from models.sim.state import SAMPLE_RING
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


def outage(mode: Literal["zero", "missing"]) -> SimulatedCluster:
    target = Target(domains=("fraud",))
    event = MetricsOutage(name="blind", target=target, at_minute=0.5, mode=mode, length_minutes=4)
    return simulated(event)


@pytest.mark.parametrize("mode", ["missing", "zero"])
def test_an_outage_removes_series_or_stops_their_counters(mode: Literal["zero", "missing"]) -> None:
    live = LiveCluster(outage(mode))
    fraud = next(name for name in live.cluster.names if name.startswith("fraud"))
    series = ("http_requests_total", fraud, "200")
    for _ in range(4):
        live.advance()
    page(live.exporter)
    pages = []
    for _ in range(3):
        live.advance()
        pages.append(page(live.exporter))
    if mode == "missing":
        assert all(series not in found for found in pages)
    else:
        assert pages[0][series] == pages[2][series] > 0
        assert pages[2]["http_request_duration_seconds", fraud, "0.99"] == 0
    assert ("kube_deployment_spec_replicas", fraud, "") in pages[-1]

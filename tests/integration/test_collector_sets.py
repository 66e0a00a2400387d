"""The sets of queries on a real Prometheus that scrapes what meshes and ingresses export."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from msgspec.structs import replace

from services.collector.batches import numbers_of
from services.collector.prometheus_api import Prometheus
from services.collector.queries import named_queries
from services.devcluster.prometheus import Server

_RATE, _FAILING = 40.0, 0.25
_BUCKETS: Final = (0.01, 0.1, 1.0)
"""Seconds; all answers take between the first two."""
_APP: Final = ("", "shop/web")
_WINDOW_S: Final = 6
_COLUMNS: Final = ("rps", "throughput", "errors", "latency_p50_s", "latency_p99_s")


def counter(name: str, value: float, **labels: str) -> str:
    given = ",".join(f'{key}="{text}"' for key, text in labels.items())
    return f"{name}{{{given}}} {value}\n"


def histogram(name: str, count: float, scale: float, **labels: str) -> str:
    rows = [counter(f"{name}_bucket", 0, le=f"{_BUCKETS[0] * scale:g}", **labels)]
    rows += [counter(f"{name}_bucket", count, le=f"{b * scale:g}", **labels) for b in _BUCKETS[1:]]
    return "".join([*rows, counter(f"{name}_bucket", count, le="+Inf", **labels)])


def istio(all_: float) -> str:
    there = {"destination_workload": "web", "destination_workload_namespace": "shop"}
    server = {"reporter": "destination", **there, "request_protocol": "http"}
    client = {**server, "reporter": "source"}
    failed = all_ * _FAILING
    return (
        counter("istio_requests_total", all_ - failed, response_code="200", **server)
        # Half of the failures are answers of gRPC, which are 200 for HTTP.
        + counter("istio_requests_total", failed / 2, response_code="503", **server)
        + counter(
            "istio_requests_total", failed / 2,
            response_code="200", grpc_response_status="14", **server,
        )
        + counter("istio_requests_total", all_, response_code="200", **client)
        + histogram("istio_request_duration_milliseconds", all_, 1000, **server)
    )  # fmt: skip


def linkerd(all_: float) -> str:
    inbound = {"direction": "inbound", "tls": "true"}
    probes = {**inbound, "route_name": "probe"}
    failed = all_ * _FAILING
    return (
        counter("request_total", all_, **inbound)
        + counter("request_total", all_, **probes)
        + counter("request_total", all_, direction="outbound")
        + counter("response_total", all_ - failed, classification="success", **inbound)
        + counter("response_total", failed, classification="failure", **inbound)
        + histogram("response_latency_ms", all_, 1000, **inbound)
    )


def ingress_nginx(all_: float) -> str:
    place = {"namespace": "shop", "service": "web", "ingress": "shop"}
    failed = all_ * _FAILING
    return (
        counter("nginx_ingress_controller_requests", all_ - failed, status="200", **place)
        + counter("nginx_ingress_controller_requests", failed, status="502", **place)
        + histogram("nginx_ingress_controller_request_duration_seconds", all_, 1, **place)
    )


def envoy_gateway(all_: float) -> str:
    failed, found = all_ * _FAILING, ""
    # Two rules of one route, and a cluster of Envoy's own.
    for name, share in (("httproute/shop/web/rule/0", 0.5), ("httproute/shop/web/rule/1", 0.5)):
        cluster = {"envoy_cluster_name": name}
        classes = {"2": (all_ - failed) * share, "5": failed * share}
        found += counter("envoy_cluster_upstream_rq_total", all_ * share, **cluster)
        for code, count in classes.items():
            labels = {**cluster, "envoy_response_code_class": code}
            found += counter("envoy_cluster_upstream_rq_xx", count, **labels)
        found += histogram("envoy_cluster_upstream_rq_time", all_ * share, 1000, **cluster)
    return found + counter(
        "envoy_cluster_upstream_rq_total", all_, envoy_cluster_name="xds_cluster"
    )


EXPORTERS: Final[dict[str, tuple[Callable[[float], str], dict[str, str]]]] = {
    "istio": (istio, {"namespace": "shop", "app": "web-v1", "pod": "web-1"}),
    "linkerd": (linkerd, {"namespace": "shop", "deployment": "web", "pod": "web-1"}),
    "ingress-nginx": (ingress_nginx, {"namespace": "ingress", "service": "controller"}),
    "envoy-gateway": (envoy_gateway, {"namespace": "gateway", "pod": "envoy-1"}),
}
"""What each exports after so many requests, and the labels that its target has in Prometheus."""


def config(port: int) -> str:
    jobs = [
        f"  - {{job_name: {name}, metrics_path: /{name}, static_configs: "
        f"[{{targets: ['127.0.0.1:{port}'], labels: {labels}}}]}}"
        for name, (_, labels) in EXPORTERS.items()
    ]
    return "\n".join(["global: {scrape_interval: 1s}", "scrape_configs:", *jobs])


def test_every_set_measures_requests_of_the_apps(
    start_prometheus: Callable[[str], Server],
) -> None:
    began = time.monotonic()

    async def export(request: web.Request) -> web.Response:
        show, _ = EXPORTERS[request.match_info["name"]]
        # The text format of Prometheus; without it the answer is refused.
        return web.Response(text=show(_RATE * (time.monotonic() - began)))

    async def measure(server: Prometheus, name: str) -> dict[str, float | None]:
        queries = replace(named_queries(name), window_seconds=_WINDOW_S, ttl_seconds=5)
        now, found = time.time(), {}
        for column in _COLUMNS:
            query = queries.with_times(queries.queries[column].query)
            answer = await server.at(query, now, 5.0)
            values = numbers_of(
                answer, queries.app_label, queries.domain_label, now, 5.0, in_namespaces=True
            )
            assert set(values) <= {_APP}, column
            found[column] = values.get(_APP)
        return found

    async def run() -> None:
        app = web.Application()
        app.router.add_get("/{name}", export)
        async with TestServer(app, host="127.0.0.1") as exporter:
            assert exporter.port is not None
            url = await asyncio.to_thread(lambda: start_prometheus(config(exporter.port or 0)).url)
            await asyncio.sleep(2 * _WINDOW_S)
            async with aiohttp.ClientSession() as session:
                server = Prometheus(session, url, 5.0)
                for name in EXPORTERS:
                    found = await measure(server, name)
                    assert found["rps"] == pytest.approx(_RATE, rel=0.2), name
                    assert found["errors"] == pytest.approx(_FAILING, rel=0.1), name
                    latency = found["latency_p50_s"], found["latency_p99_s"]
                    assert latency == pytest.approx((0.055, 0.0991), rel=0.01), name
                    assert (found["throughput"] or 0.0) < (found["rps"] or 0.0), name

    asyncio.run(run())

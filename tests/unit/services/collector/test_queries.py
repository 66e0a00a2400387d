"""The files of the Prometheus source are checked once, and what is wrong is one line."""

import re
from pathlib import Path

import pytest

from schemas.metrics_sampled import MEASURED, PODS
from services._kit.errors import BadSettings
from services._kit.settings import load
from services.collector.queries import BadQueries, load_declared, load_queries, named_queries
from services.collector.settings import Settings


def test_the_default_file_has_a_query_for_every_column_of_the_aggregator() -> None:
    queries = load_queries()
    assert set(queries.queries) >= {*MEASURED, *PODS}
    spelled = [queries.with_times(query.query) for query in queries.queries.values()]
    assert not any("$window" in query or "$ttl" in query for query in spelled)


@pytest.mark.parametrize("name", ["istio", "linkerd", "ingress-nginx", "envoy-gateway"])
def test_a_set_has_queries_of_its_own_for_requests_and_the_default_for_the_rest(name: str) -> None:
    queries, default = named_queries(name), load_queries()
    changed = {key for key, one in queries.queries.items() if one != default.queries[key]}
    assert changed == {"rps", "throughput", "errors", "latency_p50_s", "latency_p99_s"}
    assert queries.queries.keys() == default.queries.keys()
    assert queries.history != default.history


def test_what_is_neither_a_set_nor_a_file_is_refused_with_the_sets() -> None:
    with pytest.raises(BadQueries, match=r"isto: no such file, and no set: expected .*istio"):
        named_queries("isto")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("queries: {rpm: {query: x}}", "expected one of rps, .*, got rpm"),
        ("queries: {replicas: {query: x}}", "all of replicas, .* or none, cpu_request is missing"),
        ("queries: {rps: {query: ''}}", "length >= 1"),
        ("ttl_seconds: 0\nqueries: {}", "> 0"),
        ("queries: [", "expected the node content"),
        ("pools: {nodes: x}\nqueries: {}", "expected one of ready, .*, got nodes"),
    ],
)
def test_a_bad_queries_file_is_refused_in_one_line(
    tmp_path: Path, text: str, complaint: str
) -> None:
    file = tmp_path / "queries.yaml"
    file.write_text(text)
    with pytest.raises(BadQueries, match=complaint) as error:
        load_queries(file)
    assert "\n" not in str(error.value)


def test_apps_without_an_ordinal_are_in_the_order_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "inventory.yaml"
    file.write_text(
        "apps:\n"
        "- {app: web, domain: shop, max_replicas: 9}\n"
        "- {app: api, domain: shop, ordinal: 7}\n"
        "- {app: etl, domain: data}\n"
        "calendar:\n"
        "- {name: sale, domains: [shop], starts_at: '2026-11-20T10:00:00Z',\n"
        "   ends_at: '2026-11-20T11:00:00Z', expected_factor: 2}\n"
    )
    declared = load_declared(file)
    assert [(app.app, app.ordinal) for app in declared.apps] == [("web", 0), ("api", 7), ("etl", 2)]
    assert declared.calendar[0].expected_factor == 2


def test_an_announcement_on_a_day_that_does_not_exist_is_refused_in_one_line(
    tmp_path: Path,
) -> None:
    file = tmp_path / "inventory.yaml"
    file.write_text(
        "apps: []\n"
        "calendar:\n"
        "- {name: sale, domains: [shop], starts_at: '2026-02-31T10:00:00Z',\n"
        "   ends_at: '2026-03-01T11:00:00Z', expected_factor: 2}\n"
    )
    with pytest.raises(BadQueries, match="sale: expected a time that exists in `starts_at`"):
        load_declared(file)


@pytest.mark.parametrize("name", ["pending", "starting"])
def test_pending_pods_are_zero_without_a_series(name: str) -> None:
    """kube-state-metrics has the series of unschedulable pods only while there are some."""
    query = load_queries().queries[name].query
    assert re.search(r"kube_pod_status_unschedulable\S+\s+or 0 \* sum .*spec_replicas", query)


def test_a_missing_file_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadQueries, match=r"nowhere\.yaml: .*No such file"):
        load_declared(tmp_path / "nowhere.yaml")


def test_settings_are_checked_at_the_start() -> None:
    _, settings = load("collector", Settings, {"HIRL_COLLECTOR_SOURCE": "prometheus"})
    assert settings.source == "prometheus"
    with pytest.raises(BadSettings, match="url: expected http:// or https://"):
        load("collector", Settings, {"HIRL_COLLECTOR_URL": "ftp://x"})

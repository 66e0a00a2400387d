"""The embedded Prometheus scrapes, answers queries and stops."""

import json
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from models.inputs.errors import InputError
from services.devcluster import prometheus as prometheus_server
from services.devcluster.prometheus import Server

CONFIG = """
global: {scrape_interval: 1s}
scrape_configs:
  - job_name: itself
    static_configs: [{targets: ["127.0.0.1:PORT"]}]
"""


def _query(server: Server, expression: str) -> list[str]:
    query = urllib.parse.urlencode({"query": expression})
    url = f"{server.url}/api/v1/query?{query}"
    with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310  (our own server)
        return [row["value"][1] for row in json.load(answer)["data"]["result"]]


def test_it_scrapes_answers_queries_and_stops(
    start_prometheus: Callable[[str], Server],
) -> None:
    target = start_prometheus("{}")
    server = start_prometheus(CONFIG.replace("PORT", target.url.rsplit(":", 1)[1]))
    deadline = time.monotonic() + 20
    while _query(server, 'up{job="itself"}') != ["1"]:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    prometheus_server.stop(server)
    assert not prometheus_server.is_running(server)


def test_an_invalid_configuration_is_reported_in_one_line(
    start_prometheus: Callable[[str], Server],
) -> None:
    with pytest.raises(InputError, match="Prometheus ended during its start"):
        start_prometheus("nonsense: true")


def test_without_a_binary_and_without_apt_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="install prometheus"):
        prometheus_server.program()

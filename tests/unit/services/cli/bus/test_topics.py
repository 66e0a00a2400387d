"""`hirl topics` says what it did, and commands name a Kafka that cannot be reached."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from models.inputs.errors import InputError
from services.admin import reconcile
from services.admin.reconcile import Difference, ReconcileOutcome
from services.cli.bus import topics
from services.cli.bus.options import check_reachable
from services.cli.main import EXIT_BAD_INPUT, run
from services.devcluster import connect, record

Capture = pytest.CaptureFixture[str]
OUTCOME = ReconcileOutcome(
    topics=2,
    permissions=0,
    mended=[
        Difference(subject="hirl.rejected.v1", text="missing", mendable=True),
        Difference(subject="hirl.plan.v1", text="retention.ms is 1, expected 2", mendable=True),
    ],
    differences=[],
)


@contextmanager
def connected(_: object) -> Iterator[None]:
    yield


def refused(capsys: Capture, *arguments: str) -> str:
    assert run(arguments) == EXIT_BAD_INPUT
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    return line.removeprefix("hirl: error: ")


def test_created_topics_and_fixed_settings_are_told_apart(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "broker_options", lambda *_: {})
    monkeypatch.setattr(reconcile, "connection", connected)
    monkeypatch.setattr(reconcile, "apply_to", lambda *_, **__: OUTCOME)
    assert run(["topics", "apply"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "created  hirl.rejected.v1",
        "fixed    hirl.plan.v1: retention.ms is 1, expected 2",
        "2 topics: 0 difference(s)",
    ]


@pytest.mark.parametrize("command", [("topics", "check"), ("tail", "budgets"), ("explain", "a")])
@pytest.mark.parametrize("address", ["nonsense", "host:", ":9092", "host:many", "a:1,b"])
def test_an_address_without_a_port_is_refused(
    capsys: Capture, command: tuple[str, ...], address: str
) -> None:
    line = refused(capsys, *command, "--bootstrap", address)
    assert line.startswith("bootstrap: expected HOST:PORT, got ")


@pytest.mark.parametrize("command", [("topics", "check"), ("tail", "budgets"), ("explain", "a")])
def test_a_port_without_a_listener_is_reported_at_once(
    capsys: Capture, command: tuple[str, ...]
) -> None:
    line = refused(capsys, *command, "--bootstrap", "127.0.0.1:1")
    assert line == "cannot connect to Kafka at 127.0.0.1:1 (Connection refused): does it run there?"


def test_one_of_several_brokers_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        check_reachable({"bootstrap_servers": ["127.0.0.1:1", f"127.0.0.1:{port}"]})


def test_topics_are_those_of_the_running_system(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found: list[Path] = []

    def options_for_home(home: Path) -> dict[str, Any]:
        found.append(home)
        raise InputError("enough")

    monkeypatch.delenv("HIRL_KAFKA_BOOTSTRAP", raising=False)
    system = SimpleNamespace(kafka_home=str(tmp_path))
    monkeypatch.setattr(record, "read", lambda: system)
    monkeypatch.setattr(connect, "options_for_home", options_for_home)
    assert run(["topics", "check"]) == EXIT_BAD_INPUT
    assert found == [tmp_path]


def test_without_any_kafka_the_error_says_how_to_start_one(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("HIRL_KAFKA_BOOTSTRAP", raising=False)
    monkeypatch.chdir(tmp_path)
    line = refused(capsys, "topics", "check")
    assert line == "no Kafka runs here: start hirl up or hirl kafka up, or pass --bootstrap"

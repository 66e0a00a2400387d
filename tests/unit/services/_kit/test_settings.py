import logging
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from services._kit import logs
from services._kit.errors import BadSettings
from services._kit.handler import Handler
from services._kit.kafka import TopicMissing
from services._kit.main import guarded, run
from services._kit.settings import KitSettings, load
from services.collector import __main__ as collector
from services.simcluster import __main__ as simcluster
from tests.kit_example_helpers import Example, ExampleSettings


class Own(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    grace_s: float = 1.0
    name: str = ""


def test_without_a_file_or_variables_defaults_apply() -> None:
    assert load("soldier", Own, {}) == (KitSettings(), Own())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "hirl.yaml",
            "kit: {kafka_bootstrap: '127.0.0.1:1', lock_step: true}\nsoldier: {grace_s: 3}\n",
        ),
        (
            "hirl.toml",
            "[kit]\nkafka_bootstrap='127.0.0.1:1'\nlock_step=true\n[soldier]\ngrace_s=3\n",
        ),
    ],
)
def test_a_file_has_a_section_for_the_kit_and_one_per_service(
    tmp_path: Path, name: str, text: str
) -> None:
    file = tmp_path / name
    file.write_text(text)
    kit, own = load("soldier", Own, {}, str(file))
    assert (kit.kafka_bootstrap, kit.lock_step, own.grace_s) == ("127.0.0.1:1", True, 3.0)
    assert kit.tick_grace_seconds is None


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "hirl.yaml"
    file.write_text("kit: {metrics_port: 1}\nsoldier: {grace_s: 3}\n")
    environment = {
        "HIRL_CONFIG": str(file),
        "HIRL_METRICS_PORT": "9100",
        "HIRL_LOCK_STEP": "false",
        "HIRL_SOLDIER_GRACE_S": "4.5",
        "HIRL_ACTUATOR_GRACE_S": "of another service",
        "HOME": "/root",
    }
    kit, own = load("soldier", Own, environment)
    assert (kit.metrics_port, kit.lock_step, own.grace_s) == (9100, False, 4.5)


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"HIRL_METRICS_PRT": "1"}, "metrics_prt"),
        ({"HIRL_SOLDIER_GRACE": "1"}, "grace"),
        ({"HIRL_METRICS_PORT": "many"}, "HIRL_METRICS_PORT"),
        ({"HIRL_SOLDIER_GRACE_S": "many"}, "HIRL_SOLDIER_GRACE_S"),
        ({"HIRL_LOG_LEVEL": "loud"}, "HIRL_LOG_LEVEL.*expected debug or info or warning or error"),
        ({"HIRL_KAFKA_SECURITY": "SASL_SSL"}, "kafka_user"),
        ({"HIRL_HEARTBEAT_SECONDS": "5"}, "heartbeat_seconds"),
        ({"HIRL_SPEED": "0"}, "speed"),
        ({"HIRL_GRACE_SECONDS": "-1"}, "grace_seconds"),
        ({"HIRL_GRACE_SECONDS": "nan"}, "grace_seconds"),
        ({"HIRL_SPEED": "nan"}, "speed"),
        ({"HIRL_CONFIG": "/nowhere.yaml"}, "/nowhere.yaml"),
    ],
)
def test_a_bad_or_unknown_setting_is_named_in_one_line(
    environment: dict[str, str], named: str
) -> None:
    with pytest.raises(BadSettings, match=named) as error:
        load("soldier", Own, environment)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["soldeir: {}", "kit: 3", "[", "kit: {x: 1}"])
def test_an_invalid_file_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "hirl.yaml"
    file.write_text(text)
    with pytest.raises(BadSettings) as error:
        load("soldier", Own, {}, str(file))
    assert "\n" not in str(error.value)


def test_bad_settings_stop_the_start_with_status_2_and_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def build(kit: KitSettings, own: ExampleSettings) -> Handler[object]:
        del kit, own
        raise AssertionError("not reached")

    monkeypatch.setenv("HIRL_NONSENSE", "1")
    assert run("soldier", build, ExampleSettings, []) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert line.startswith("hirl-soldier: kit:")
    assert "nonsense" in line


def test_a_service_may_refuse_its_settings_when_it_is_built(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def build(kit: KitSettings, own: ExampleSettings) -> Example:
        del kit, own
        raise BadSettings("cluster: expected a file")

    monkeypatch.delenv("HIRL_REQUIRE_REAL", raising=False)
    monkeypatch.setattr(logs, "set_up", lambda *_: None)
    assert run("example", build, ExampleSettings, []) == 2
    assert capsys.readouterr().err == "hirl-example: cluster: expected a file\n"


def test_a_missing_topic_is_one_line_and_status_1(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def work() -> None:
        raise TopicMissing("hirl.x.v1")

    assert guarded("soldier", work) == 1
    (line,) = caplog.records
    assert line.message == "soldier stops: topic hirl.x.v1 is missing: run `hirl topics apply`"
    assert line.exc_info is None


def test_a_failure_is_logged_with_its_traceback_and_is_status_1(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def work() -> None:
        raise ZeroDivisionError

    assert guarded("soldier", work) == 1
    (line,) = caplog.records
    assert line.exc_info is not None


@pytest.mark.parametrize(
    ("process", "arguments", "complaint"),
    [
        (collector, ["nowhere.toml"], "hirl-collector: nowhere.toml"),
        (simcluster, ["--scenario", "nowhere"], "hirl-simcluster: "),
    ],
)
def test_processes_without_a_handler_refuse_bad_settings_with_status_2(
    process: Any,
    arguments: list[str],
    complaint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("HIRL_REQUIRE_REAL", raising=False)
    monkeypatch.setattr(sys, "argv", ["", *arguments])
    monkeypatch.setattr(logs, "set_up", lambda *_: None)
    assert guarded(process.SERVICE, process.work) == 2
    line = capsys.readouterr().err
    assert line.startswith(complaint)
    assert line.count("\n") == 1


def test_logging_is_set_up_before_a_service_is_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order: list[str] = []
    monkeypatch.delenv("HIRL_REQUIRE_REAL", raising=False)
    monkeypatch.setattr(logs, "set_up", lambda *_: order.append("logs"))

    def build(kit: KitSettings, own: ExampleSettings) -> Handler[Any]:
        del kit, own
        order.append("build")
        raise BadSettings("enough")

    assert run("example", build, ExampleSettings, []) == 2
    assert order == ["logs", "build"]


@pytest.mark.parametrize("security", ["PLAINTEXT", "SASL_PLAINTEXT"])
@pytest.mark.parametrize("brokers", ["kafka.example:9092", "127.0.0.1:1,10.0.0.2:9092", "[::2]:1"])
def test_unencrypted_brokers_on_other_machines_are_refused(brokers: str, security: Any) -> None:
    environment = {
        "HIRL_KAFKA_BOOTSTRAP": brokers,
        "HIRL_KAFKA_SECURITY": security,
        "HIRL_KAFKA_USER": "soldier",
    }
    with pytest.raises(BadSettings, match=r"expected SASL_SSL .* kafka_allow_plaintext"):
        load("soldier", Own, environment)
    allowed = {**environment, "HIRL_KAFKA_ALLOW_PLAINTEXT": "true"}
    assert load("soldier", Own, allowed)[0].kafka_bootstrap == brokers
    encrypted = {**environment, "HIRL_KAFKA_SECURITY": "SASL_SSL"}
    assert load("soldier", Own, encrypted)[0].kafka_bootstrap == brokers


@pytest.mark.parametrize(
    "brokers", ["127.0.0.1:9092", "localhost:9092", "[::1]:9092", "127.1.2.3:1"]
)
def test_brokers_on_this_machine_may_be_unencrypted(brokers: str) -> None:
    assert KitSettings(kafka_bootstrap=brokers).kafka_security == "PLAINTEXT"


def test_a_password_may_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    secret = "=s3cret="  # noqa: S105  not one
    file.write_text(f"{secret}\n")
    kit, _ = load("soldier", Own, {"HIRL_KAFKA_PASSWORD_FILE": str(file)})
    assert kit.kafka_password == secret


def test_a_password_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    for name, problem in (("absent", "cannot be read"), ("empty", "is empty")):
        with pytest.raises(BadSettings, match=problem):
            load("soldier", Own, {"HIRL_KAFKA_PASSWORD_FILE": str(tmp_path / name)})
    both = {"HIRL_KAFKA_PASSWORD_FILE": str(tmp_path / "empty"), "HIRL_KAFKA_PASSWORD": "x"}
    with pytest.raises(BadSettings, match="got both"):
        load("soldier", Own, both)


def test_a_password_is_in_no_text_of_the_settings_and_in_no_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    secret = "correct-horse"  # noqa: S105  not one
    kit = KitSettings(kafka_password=secret, kafka_user="soldier")
    assert secret not in f"{kit!r} {kit} {[kit]}"
    assert "kafka_user='soldier'" in repr(kit)
    for name in ("HIRL_KAFKA_PASWORD", "HIRL_KAFKA_PASSWORD"):
        broken = {name: secret, "HIRL_METRICS_PORT": "none"}
        with pytest.raises(BadSettings) as found:
            load("soldier", Own, broken)
        assert secret not in str(found.value)
    logs.set_up("soldier", "", "debug")
    logging.getLogger("services.test").warning("started with %s", kit)
    assert secret not in capsys.readouterr().err

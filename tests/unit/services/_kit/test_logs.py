"""Lines are JSON with the ids of their event; they are few in an outage and hold no password."""

import io
import json
import logging
import socket

import pytest

from services._kit import logs
from services._kit.errors import BadSettings
from services._kit.main import guarded
from tests.kit_example_helpers import granted, sampled


def logging_to(formatter: logging.Formatter) -> tuple[logging.Logger, io.StringIO]:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(formatter)
    logger = logging.getLogger("services.test")
    logger.handlers[:] = [handler]
    logger.propagate = False
    return logger, out


def line_of(formatter: logging.Formatter) -> str:
    logger, out = logging_to(formatter)
    with logs.tracing(sampled("payments", 7)):
        logger.warning("held %s", "it", extra={"fields": {"reason": "stale"}})
    return out.getvalue()


def test_a_log_line_is_json_with_the_ids_of_the_event() -> None:
    line = json.loads(line_of(logs.JsonLines("soldier", "0")))
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "warning",
        "service": "soldier",
        "instance": "0",
        "logger": "services.test",
        "message": "held it",
        "domain": "payments",
        "tick": 7,
        "reason": "stale",
    }


def test_a_process_without_a_name_is_called_like_its_container() -> None:
    line = json.loads(line_of(logs.JsonLines("soldier", "")))
    assert line["instance"] == socket.gethostname()


def test_a_terminal_gets_lines_for_people() -> None:
    line = line_of(logs.Readable("soldier"))
    assert line.endswith("soldier: held it domain=payments tick=7 reason=stale\n")


def test_ids_are_those_of_the_innermost_event_and_gone_afterwards() -> None:
    with logs.tracing(sampled("a", 1)):
        with logs.tracing(granted("b", 2)):
            assert logs._ids.get()["domain"] == "b"
        assert logs._ids.get()["domain"] == "a"
    assert logs._ids.get({}) == {}


def test_exceptions_are_part_of_the_line() -> None:
    logger, out = logging_to(logs.JsonLines("soldier", "0"))
    try:
        int("text")
    except ValueError:
        logger.exception("failed")
    assert "ValueError" in json.loads(out.getvalue())["exception"]


URL = "https://joe:hid@den/key@prometheus:9090/api"


@pytest.mark.parametrize("formatter", [logs.JsonLines("x", "0"), logs.Readable("x")])
def test_no_line_holds_the_password_of_a_url(formatter: logging.Formatter) -> None:
    logger, out = logging_to(formatter)
    try:
        int(URL)
    except ValueError:
        logger.exception("no answer from %s", URL, extra={"fields": {"url": URL}})
    assert "prometheus:9090" in out.getvalue()
    assert not any(word in out.getvalue() for word in ("joe", "hid@", "den/", "key@"))


def test_an_error_in_settings_holds_no_password(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        raise BadSettings(f"url: cannot use {URL}")

    assert guarded("collector", work) == 2
    line = "hirl-collector: url: cannot use https://***@prometheus:9090/api\n"
    assert capsys.readouterr().err == line


def test_a_url_without_a_user_stays_as_it_is() -> None:
    line = "GET http://127.0.0.1:8700/v1 after mail to a@b"
    assert logs.without_userinfo(line) == line


def test_a_library_logs_a_line_in_a_while_and_says_how_many_it_dropped() -> None:
    now = [0.0]
    sparse = logs.Sparse(lambda: now[0])

    def passed(name: str, level: int = logging.ERROR) -> bool:
        record = logging.LogRecord(name, level, "", 0, "no broker", (), None)
        passes = sparse.filter(record)
        if passes:
            fields.append(getattr(record, "fields", {}))
        return passes

    fields: list[dict[str, int]] = []
    assert [passed("aiokafka.conn") for _ in range(100)] == [True] + [False] * 99
    assert passed("aiokafka.conn", logging.WARNING), "another level is another matter"
    assert passed("kafka.client")
    assert all(passed("services.soldier") for _ in range(100))
    now[0] = logs.SPARSE_S
    assert passed("aiokafka.conn")
    assert fields[-1] == {"dropped_lines": 99}


def test_a_warning_of_faust_that_means_nothing_is_dropped() -> None:
    sparse = logs.Sparse()

    def passes(message: str) -> bool:
        return sparse.filter(logging.makeLogRecord({"name": "faust", "msg": message}))

    assert not passes("[^App]: Missing sensor state for rebalance #1")
    assert passes("[^App]: something else")

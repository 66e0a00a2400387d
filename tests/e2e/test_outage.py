"""The brokers are down for longer than every timeout: all services recover and go on."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from msgspec.structs import replace

from services.devcluster import launch, record
from services.devcluster.kafka import cluster as kafka_cluster
from services.devcluster.launch import system
from services.devcluster.lifecycle import wait
from services.devcluster.probe import read_metrics, read_progress
from services.devcluster.record import COLLECTOR, SIMCLUSTER, Run
from services.devcluster.request import Request
from services.devcluster.specs import DECIDING
from tests.decision_helpers import SCENARIO

AWAY_S: Final = 30.0
"""Longer than the session timeout (6 s) and the timeout below."""
ACKNOWLEDGED_S: Final = 8.0
QUIET_TICKS: Final = 4
TIMEOUT_S: Final = 120.0
SERVICES: Final = (COLLECTOR, *DECIDING)


class Survived(NamedTuple):
    """A system whose only broker was away."""

    run: Run
    reasons: dict[str, str]
    """What /readyz of each service said at the end of the outage."""
    lines: dict[str, int]
    """Lines in the log of each service in the outage."""
    levels: Counter[str]
    tracebacks: list[str]
    recovery_s: float
    """From the broker's return to a tick that every domain closed."""


@pytest.fixture(scope="module")
def survived(workplace: Path, module_patch: pytest.MonkeyPatch) -> Iterator[Survived]:
    prepare = launch.prepare

    def impatient(*arguments: object, **options: object) -> object:
        run, kafka = prepare(*arguments, **options)  # type: ignore[arg-type]
        extra = {"HIRL_ACKNOWLEDGEMENT_SECONDS": f"{ACKNOWLEDGED_S:g}"}
        specs = tuple(replace(spec, environment=spec.environment | extra) for spec in run.specs)
        return replace(run, specs=specs), kafka

    module_patch.setattr(launch, "prepare", impatient)
    root = workplace / "outage"
    with system(Request(scenario=SCENARIO, seed=3, apps=20, speed=20.0), root) as run:
        wait(root, ticks=QUIET_TICKS, timeout_s=300)
        home = Path(run.kafka_home)
        before = {name: log_of(run, name) for name in SERVICES}
        kafka_cluster.kill_broker(1, home)
        time.sleep(AWAY_S)
        reasons = {name: readiness(run, name) for name in SERVICES}
        during = {name: log_of(run, name)[len(before[name]) :] for name in SERVICES}
        kafka_cluster.restart_missing(home)
        back = time.monotonic()
        pass_ticks(root, QUIET_TICKS)
        recovered = time.monotonic() - back
        wait_ready(root)
        everything = [line for name in SERVICES for line in log_of(run, name)]
        yield Survived(
            record.running(root),
            reasons,
            {name: len(lines) for name, lines in during.items()},
            Counter(line.get("level", "?") for line in everything),
            [line["exception"] for line in everything if ours(line) and "exception" in line],
            recovered,
        )


@pytest.fixture(scope="module")
def module_patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def log_of(run: Run, name: str) -> list[dict[str, str]]:
    text = (Path(run.folder) / "logs" / f"{name}.log").read_text()
    return [
        json.loads(line) if line.startswith("{") else {"message": line}
        for line in text.splitlines()
    ]


def ours(line: dict[str, str]) -> bool:
    """Not of a Kafka client."""
    return line.get("logger", "services").startswith("services")


def readiness(run: Run, name: str) -> str:
    url = next(spec.url for spec in run.specs if spec.name == name)
    try:
        with urlopen(f"{url}/readyz", timeout=5) as answer:  # noqa: S310  (our own URL)
            return str(answer.read().decode())
    except HTTPError as error:
        with error:
            return error.read().decode()
    except OSError as error:
        return repr(error)


def pass_ticks(root: Path, count: int) -> None:
    now = read_progress(record.running(root))
    assert now is not None
    wait(root, ticks=now.tick + count + 1, timeout_s=TIMEOUT_S)


def wait_ready(root: Path) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    specs = record.running(root).specs
    while not all(read_metrics(spec).ready for spec in specs):
        assert time.monotonic() < deadline, "a service does not come back"
        time.sleep(0.2)


def test_every_service_goes_on_when_the_broker_is_back(
    survived: Survived, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        restarts = {name: one.restarts for name, one in survived.run.statuses.items()}
        print(f"\nticks close {survived.recovery_s:.1f} s after the broker is back")  # noqa: T201
        print(f"log lines in {AWAY_S:.0f} s: {survived.lines}; restarts: {restarts}")  # noqa: T201
    assert survived.run.failed == []
    assert {one.state for one in survived.run.statuses.values()} == {"running"}


def test_no_service_is_restarted_more_than_once(survived: Survived) -> None:
    restarts = {name: one.restarts for name, one in survived.run.statuses.items()}
    assert restarts[SIMCLUSTER] == restarts[COLLECTOR] == 0, "they wait without ending"
    assert max(restarts.values()) <= 1


def test_readyz_says_that_the_brokers_do_not_answer(survived: Survived) -> None:
    assert [name for name, why in survived.reasons.items() if "do not answer" not in why] == []


def test_an_outage_is_quiet(survived: Survived) -> None:
    assert max(survived.lines.values()) <= AWAY_S, "a line a second at most"
    assert survived.tracebacks == []

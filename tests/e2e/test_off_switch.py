"""What is off stays as it is, whatever changes underneath, on a running system.

Four domains are stopped, each in another way; the fifth is left on. Then everything that could
move an app changes for all of them alike: declared bounds, exact replicas, floors, ceilings,
forged budgets and samples, and the actuator is killed. The journal of the cluster tells who moved.
"""

import os
import random
import signal
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from schemas.app_declared import AppDeclared
from schemas.codec import encode
from schemas.domain_observed import DomainObserved
from schemas.fields import Event
from schemas.scale_applied import ScaleApplied
from services._kit.kafka_python import KafkaProducer
from services.admin.orders import Author, Scope, inventory, new_order, publish, read_topic
from services.admin.reader import TopicReader
from services.devcluster import record
from services.devcluster.connect import options_for_home
from services.devcluster.launch import system
from services.devcluster.lifecycle import wait
from services.devcluster.probe import read_journal, read_progress
from services.devcluster.request import Request
from services.measure.chaos.records import HostileRecord, forged_budgets, forged_samples
from services.simcluster.target import Entry
from tests.decision_helpers import SCENARIO

STOPS: Final[dict[str, tuple[Any, dict[str, Any]]]] = {
    "payments": ("mode", {"mode": "off"}),
    "fraud": ("mode", {"mode": "preview"}),
    "merchant": ("pause", {"pause": "all"}),
    "data": ("breaker", {"breaker": "open"}),
}
"""Kind and content of the order that stops each domain."""
LEFT_ON: Final = "internal"
DOMAINS: Final = (*STOPS, LEFT_ON)
TIMEOUT_S: Final = 300.0
_AUTHOR: Final = Author("test", authenticated=False)


def order(domain: str, now: datetime, kind: Any, **what: Any) -> Any:
    until = now + timedelta(days=1)
    return new_order(Scope("domain", domain), kind, _AUTHOR, "a test", now, until, **what)


def pass_ticks(root: Path, count: int) -> int:
    """Wait until `count` more ticks are closed; returns the tick that the cluster is at then."""
    progress = read_progress(record.running(root))
    assert progress is not None
    wait(root, ticks=progress.tick + count + 1, timeout_s=TIMEOUT_S)
    reached = read_progress(record.running(root))
    assert reached is not None
    return reached.tick


def publish_events(options: dict[str, Any], events: Sequence[Event]) -> None:
    producer = KafkaProducer(**options)
    for event in events:
        for one in encode(event, "test"):
            producer.send(one.topic, key=one.key, value=one.value, headers=list(one.headers))
    producer.flush()
    producer.close()


def send(options: dict[str, Any], records: Sequence[HostileRecord]) -> None:
    producer = KafkaProducer(**options)
    for one in records:
        producer.send(one.topic, one.value, key=one.key, headers=list(one.headers))
    producer.flush()
    producer.close()


def newest(options: dict[str, Any], domain: str) -> DomainObserved:
    with TopicReader(options) as reader:
        frame = reader.find_newest(DomainObserved, domain, lambda _: True)
    assert frame is not None
    return frame


def change_everything(options: dict[str, Any], now: datetime) -> None:
    """What owners and operators may change, for domains that are off and for the one that is on."""
    with TopicReader(options) as reader:
        declared = list(inventory(read_topic(reader, AppDeclared)).values())
    tight = [msgspec.structs.replace(app, max_replicas=app.min_replicas) for app in declared]
    publish_events(options, tight)
    until = now + timedelta(days=1)
    for app in random.Random(0).sample(declared, 5):
        scope = Scope("app", app.app)
        exact = new_order(scope, "replicas", _AUTHOR, "a test", now, until, replicas=1)
        publish(options, [exact])
    publish(options, [order(domain, now, "ceiling", ceiling=1) for domain in DOMAINS])
    publish(options, [order(domain, now, "floor", floor=500) for domain in DOMAINS[:2]])


def forge(options: dict[str, Any], tick: int) -> None:
    """Call every app idle, and grant nothing to anybody."""
    for domain in DOMAINS:
        frame = newest(options, domain)
        for ahead in range(1, 5):
            send(options, forged_samples(domain, frame.tick + ahead, frame.time, frame.apps))
    send(options, forged_budgets(DOMAINS, tick))


def kill_actuator(root: Path) -> None:
    process = record.running(root).status("actuator").process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)


def moved(journal: Sequence[Entry], after: int) -> Counter[str]:
    """Changes by domain in ticks after one."""
    return Counter(e.domain for e in journal if e.tick > after and e.outcome == "applied")


@pytest.fixture(scope="module")
def changes(workplace: Path) -> tuple[Counter[str], dict[str, set[str]]]:
    """Changes by domain after the stops, and the reasons of what was held."""
    root = workplace / "off"
    request = Request(scenario=SCENARIO, seed=3, apps=60, lock_step=True)
    with system(request, root) as run:
        options = options_for_home(Path(run.kafka_home))
        wait(root, ticks=8, timeout_s=TIMEOUT_S)
        now = datetime.fromisoformat(newest(options, LEFT_ON).time).astimezone(UTC)
        publish(
            options, [order(domain, now, kind, **what) for domain, (kind, what) in STOPS.items()]
        )
        # The breaker has to see its order, and the actuator the breaker's next heartbeat.
        stopped = pass_ticks(root, 4)
        change_everything(options, now)
        kill_actuator(root)
        # Before the forgeries: they open the breaker of the cluster, which stops the fifth too.
        forge(options, pass_ticks(root, 12))
        pass_ticks(root, 8)
        with TopicReader(options) as reader:
            applied = [a for a in reader.read_all(ScaleApplied) if a.tick > stopped]
        return moved(read_journal(run), stopped), {
            domain: {reason for a in applied if a.domain == domain for reason in a.reasons}
            for domain in STOPS
        }


def test_nothing_that_is_off_is_changed_whatever_changes_underneath(
    changes: tuple[Counter[str], dict[str, set[str]]],
) -> None:
    moves, _ = changes
    assert {domain: moves[domain] for domain in STOPS} == dict.fromkeys(STOPS, 0)
    # Otherwise nothing would have happened underneath.
    assert moves[LEFT_ON] > 0


def test_what_is_held_says_why(changes: tuple[Counter[str], dict[str, set[str]]]) -> None:
    _, reasons = changes
    expected = {
        "payments": "off", "fraud": "preview", "merchant": "paused", "data": "breaker-open"
    }  # fmt: skip
    assert {domain: why in reasons[domain] for domain, why in expected.items()} == dict.fromkeys(
        STOPS, True
    )

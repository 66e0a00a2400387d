"""Records that no service may be hurt by: replayed, forged, from the future, oversized, random."""

import json
import random
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import schemas
from schemas.topics import TOPICS

Fuzz = Literal["random", "tombstones", "headers", "mutated"]
FUZZES: Final[tuple[Fuzz, ...]] = ("random", "tombstones", "headers", "mutated")
_EXAMPLES: Final = Path(schemas.__file__).parent / "examples"
_OVERSIZED: Final = 900_000
"""Bytes: just below what a broker accepts by default."""
LAST_EPOCH: Final = 2**31 - 1
_FAR_TICKS: Final = (200, 345, 10**6, 2**31 - 1)
"""How far ahead forged ticks are: beyond the window of the fault, so that a forged plan that is
refused does not count as lost."""
_ODD_VALUES: Final[tuple[Any, ...]] = (
    None,
    -1,
    0,
    1e30,
    2**31 - 1,
    2**63,
    "",
    "x" * 300,
    [],
    {},
    True,
    "\u0000",
)
_ODD_KEYS: Final = (b"", b"\xff\xfe", b"payments\n", b"x" * 5000)


class HostileRecord(NamedTuple):
    """What a client that means harm, or one that is broken, sends."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None


def example_of(topic: str) -> dict[str, Any]:
    """A valid event of a topic."""
    found: dict[str, Any] = json.loads(_example(topic))
    return found


@cache
def _example(topic: str) -> str:
    return (_EXAMPLES / f"{topic}.json").read_text(encoding="utf-8")


def fuzzed(rng: random.Random, kind: Fuzz, count: int) -> list[HostileRecord]:
    """Nonsense of one kind, on every topic."""
    return [_fuzzed(rng, kind, rng.choice(TOPICS).name) for _ in range(count)]


def _fuzzed(rng: random.Random, kind: Fuzz, topic: str) -> HostileRecord:
    key = rng.choice((*_ODD_KEYS, rng.randbytes(8), b"payments"))
    match kind:
        case "random":
            return HostileRecord(topic, key, rng.randbytes(rng.randrange(200)))
        case "tombstones":  # of whatever key
            return HostileRecord(topic, key, None)
        case "headers":  # a null header, which clients in other languages send
            value = json.dumps(example_of(topic)).encode()
            return HostileRecord(topic, key, value, (("ce_type", None), ("x", rng.randbytes(9))))
        case "mutated":
            return HostileRecord(topic, key, json.dumps(_mutated(rng, example_of(topic))).encode())


def _mutated(rng: random.Random, event: dict[str, Any]) -> dict[str, Any]:
    """The event with one to three fields replaced by something odd."""
    for name in rng.sample(sorted(event), min(len(event), rng.randrange(1, 4))):
        event[name] = rng.choice(_ODD_VALUES)
    return event


def oversized(rng: random.Random) -> list[HostileRecord]:
    """As much as a broker accepts: in the value, and in the headers."""
    topic = rng.choice(TOPICS).name
    text = json.dumps(example_of(topic) | {"trace_id": "x" * _OVERSIZED}).encode()
    headers = tuple((f"h{index}", b"x" * 7000) for index in range(100))
    return [
        HostileRecord(topic, b"payments", text),
        HostileRecord(topic, b"payments", b"{}", headers),
    ]


def from_the_future(rng: random.Random, domain: str, tick: int) -> list[HostileRecord]:
    """Valid events of every keyed topic of a domain, far ahead of the present tick."""
    found = []
    for topic in TOPICS:
        event = example_of(topic.name)
        if "tick" not in event:
            continue
        ahead = min(2**31 - 1, tick + rng.choice(_FAR_TICKS))
        event |= {"tick": ahead} | _moved(event, ahead) | _renamed(topic.key, event, domain)
        key = str(event.get(topic.key, "")).encode()
        found.append(HostileRecord(topic.name, key, json.dumps(event).encode()))
    return found


def _moved(event: dict[str, Any], tick: int) -> dict[str, Any]:
    """Numbers that follow the tick, so that only its distance is odd."""
    moved: dict[str, Any] = {}
    if "valid_until_tick" in event:
        moved["valid_until_tick"] = min(2**31 - 1, tick + 18)
    if "epoch" in event:
        moved["epoch"] = 2**31 - 1
    return moved


def _renamed(key: str, event: dict[str, Any], domain: str) -> dict[str, Any]:
    return {key: domain} if key in ("domain", "scope") and key in event else {}


def forged_samples(domain: str, tick: int, time: str, apps: Sequence[str]) -> list[HostileRecord]:
    """Samples that call every app idle and tiny, and close the tick."""
    count = len(apps)
    event = {
        "domain": domain,
        "tick": tick,
        "time": time,
        "source": "forged",
        "final": True,
        "apps": list(apps),
        "rps": [0.0] * count,
        "throughput": [0.0] * count,
        "errors": [0.0] * count,
        "latency_p50_s": [0.001] * count,
        "latency_p99_s": [0.001] * count,
        "cpu_cores": [0.01] * count,
        "memory_gib": [0.1] * count,
        "measured_pods": [1.0] * count,
        "replicas": [1] * count,
        "cpu_request": [100] * count,
        "memory_request": [128] * count,
        "ready": [1] * count,
        "starting": [0] * count,
        "pending": [0] * count,
        "restarts": [0] * count,
    }
    return [HostileRecord("hirl.metrics-sampled.v1", domain.encode(), json.dumps(event).encode())]


def forged_budgets(domains: Iterable[str], tick: int) -> list[HostileRecord]:
    """Budgets that grant nothing to any domain, with an epoch above every other."""
    found = []
    for domain in domains:
        event = example_of("hirl.budget-granted.v1") | {
            "domain": domain,
            "tick": tick,
            "epoch": LAST_EPOCH,
            "valid_until_tick": 2**31 - 1,
            "share": 0.0,
            "cores": 0.0,
            "memory_gib": 0.0,
            "release_cores": 1e9,
        }
        value = json.dumps(event).encode()
        found.append(HostileRecord("hirl.budget-granted.v1", domain.encode(), value))
    return found


def misplaced(
    rng: random.Random, domain: str, records: Sequence[HostileRecord]
) -> list[HostileRecord]:
    """The same records with another key, or in another partition."""
    return [
        record._replace(key=domain.encode(), partition=rng.randrange(8))
        if rng.random() < 0.5
        else record._replace(key=b"someone-else")
        for record in records
    ]

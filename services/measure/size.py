"""One size of cluster over a real Kafka: what a tick costs, what is saved, how long restarts take.

In lock-step: a tick takes as long as it takes, and the next one begins when it is closed.
"""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from models.inputs.errors import InputError
from schemas.rejected import Rejected
from schemas.scale_applied import ScaleApplied
from schemas.topics import state_topic, topic_of
from services._kit.kafka import state_record_of
from services._kit.state_records import FoundStates, part_of
from services.admin.desired import STATEFUL
from services.admin.reader import TopicReader
from services.devcluster.probe import is_ready
from services.devcluster.request import Request
from services.measure.path import WARM_UP_TICKS
from services.measure.stamps import (
    PATH,
    Stamp,
    TickTimes,
    TickWatcher,
    by_hop,
    quantiles,
    stream_stamps,
    tick_times,
)
from services.measure.testbed import (
    MeasuredSystem,
    load_average,
    measured_system,
    read_cpu,
    usage_since,
)

KILLED: Final = ("aggregator", "soldier", "actuator")
"""Services on the way from a sample to a change that have a state per domain."""
_START_S: Final = 900.0
_TICK_S: Final = 120.0
"""Timeout of a tick or a start; only a stuck one takes longer."""
_POLL_S: Final = 0.1


class Cost(msgspec.Struct, frozen=True):
    """Cost of one process."""

    cpu_s_per_tick: float
    rss_mb: float
    """Resident memory at the end, MiB."""


class Restart(msgspec.Struct, frozen=True):
    """Seconds since a service was killed."""

    ready_s: float
    """Until it is ready again."""
    ready_cpu_s: float
    """CPU time that it needed for that."""
    next_tick_s: float
    """Until a tick that began after the kill is closed in every domain."""


class StateSize(msgspec.Struct, frozen=True, kw_only=True):
    """The largest save of a service that its topic still has."""

    service: str
    key: str
    sent_bytes: int
    parts: int
    newest_bytes: int
    """Size of the key's newest save, before deflating."""


def measure(request: Request, ticks: int, folder: Path) -> dict[str, Any]:
    """Figures of `ticks` ticks after the warm-up, then of a restart of each service in KILLED."""
    load = load_average()
    with measured_system(replace(request, lock_step=True), folder) as system:
        domains = system.run.simulation.domains
        with TopicReader(system.options) as reader:
            watcher = TickWatcher(reader, domains, system.check)
            watcher.wait(WARM_UP_TICKS - 1, _START_S)
            services = _costs(system, watcher, ticks)
            restarts = {name: _restart(system, watcher, name) for name in KILLED}
        # Read all topics at rest: doing it beside the services would change what is measured.
        system.stop()
        outcomes: Counter[str] = Counter()
        stamps = _counted(stream_stamps(system.options, PATH), outcomes)
        times = tick_times(stamps, len(domains))
        states = [_largest(system.options, service) for service in STATEFUL]
        letters = _dead_letters(system.options)
    return {
        "apps": request.apps,
        "scenario": request.scenario,
        "load": [load, load_average()],
        **_tick_figures(times, ticks),
        "outcomes": dict(outcomes),
        "dead_letters": letters,
        "services": services,
        "states": [state for state in states if state is not None],
        "restarts": restarts,
    }


def _costs(system: MeasuredSystem, watcher: TickWatcher, ticks: int) -> dict[str, Cost]:
    """CPU time per tick and memory of each process, over so many ticks."""
    pids = system.pids
    before = read_cpu(pids)
    watcher.wait(WARM_UP_TICKS + ticks - 1, ticks * _TICK_S)
    after, usage = read_cpu(pids), usage_since(before, pids)
    return {
        name: Cost((after.cpu_s[name] - before.cpu_s[name]) / ticks, usage[name].rss_mb)
        for name in pids
    }


def _restart(system: MeasuredSystem, watcher: TickWatcher, name: str) -> Restart:
    # The tick in progress may close without the service, if it had done its part already.
    first, began, pid = watcher.closed + 2, time.monotonic(), system.pids[name]
    system.kill(name)
    while system.pids.get(name, pid) == pid or not is_ready(system.spec(name).url):
        if time.monotonic() - began > _TICK_S:
            raise InputError(f"{name} was not ready again within {_TICK_S:.0f} s")
        time.sleep(_POLL_S)
    ready, cpu = time.monotonic() - began, read_cpu({name: system.pids[name]}).cpu_s[name]
    watcher.wait(first, _TICK_S)
    return Restart(ready, cpu, time.monotonic() - began)


def _counted(stamps: Iterator[Stamp], outcomes: Counter[str]) -> Iterator[Stamp]:
    for stamp in stamps:
        if isinstance(stamp.event, ScaleApplied):
            outcomes.update(stamp.event.outcomes)
        yield stamp


def _tick_figures(times: dict[int, TickTimes], ticks: int) -> dict[str, Any]:
    window = range(WARM_UP_TICKS, WARM_UP_TICKS + ticks)
    # The first measured tick begins when the one before it closes, so that one is needed, too.
    if not times.keys() >= {*window, WARM_UP_TICKS - 1}:
        raise InputError("not every tick completed the path")
    measured = {tick: times[tick] for tick in window}
    seconds = [times[tick].applied - times[tick - 1].applied for tick in window]
    return {
        "ticks": ticks,
        "warm_up_ticks": WARM_UP_TICKS,
        "tick_s": quantiles(seconds),
        "sample_to_applied_s": quantiles([one.total_ms / 1e3 for one in measured.values()]),
        "by_hop_ms": by_hop(measured),
    }


def _largest(options: dict[str, Any], service: str) -> StateSize | None:
    """The largest save among those that compaction has not removed."""
    sizes: dict[str, int] = {}
    largest, found = ("", 0, 0), FoundStates()
    with TopicReader(options) as reader:
        for one in reader.stream_to_end([state_topic(service)]):
            record_key = one.delivery.key.decode(errors="replace")
            record, part = state_record_of(one.delivery), part_of(record_key)
            found.add(record_key, record)
            if record is None or part is None:
                continue
            key, number = part
            # The parts of a save follow each other, beginning with the first.
            sizes[key] = len(record.value) + (sizes.get(key, 0) if number > 1 else 0)
            if sizes[key] > largest[1]:
                largest = (key, sizes[key], number)
    key, sent, parts = largest
    if not key:
        return None
    raw = len(found.join(key)) if key in found else 0
    return StateSize(service=service, key=key, sent_bytes=sent, parts=parts, newest_bytes=raw)


def _dead_letters(options: dict[str, Any]) -> int:
    with TopicReader(options) as reader:
        return sum(1 for _ in reader.stream_to_end([topic_of(Rejected).name]))

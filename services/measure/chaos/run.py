"""Rounds of faults: start a system, inject, wait for the next closed tick, audit at the end."""

import random
import shutil
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from kafka.errors import KafkaError

from models.inputs.errors import InputError
from schemas.rejected import Rejected
from schemas.topics import topic_of
from services.admin.decisions import read_decisions
from services.admin.reader import TopicReader
from services.devcluster import record
from services.devcluster.launch import system
from services.devcluster.lifecycle import has_ended, wait
from services.devcluster.probe import is_ready, read_journal, read_progress
from services.devcluster.request import Request
from services.measure.chaos.audit import Evidence, Window, merged
from services.measure.chaos.flaky_source import FlakySource
from services.measure.chaos.flaky_target import FlakyTarget
from services.measure.chaos.proxy import serving
from services.measure.chaos.report import (
    Audited,
    Injected,
    NotInjected,
    Report,
    Round,
    audited,
    report_of,
)
from services.measure.chaos.subject import Claims, Fault, Skipped, Subject, environment_for

FIRST_TICKS: Final = 18
"""Ticks before the first fault: three minutes, with two budgets."""
QUIET_TICKS: Final = 14
"""Ticks after a fault in which its effects show: more than two minutes."""
_CALMING_TICKS: Final = 40
"""Most ticks to wait for breakers to close; then the next fault is injected anyway."""
_CALMING_STEP: Final = 3
_TIMEOUT_S: Final = 240.0
_LAST_TICKS: Final = 90
"""A fault that begins so close to the end of a scenario might not be observed to its end."""
_MOST_FUTILE: Final = 3
"""Rounds in a row without any injection, after which another one would be futile, too."""
_POLL_S: Final = 0.1
_ATTEMPTS: Final = 5
_PAUSE_S: Final = 2.0

Notify = Callable[[str], None]


class Callbacks(NamedTuple):
    """Called with the progress of a run."""

    line: Notify
    report: Callable[[Report], None]
    """Called after each round, so that little is lost if the run is killed."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to inject, and for how long."""

    minutes: float
    """Shortest duration; it is longer if not every kind of fault came yet."""
    seed: int
    hostile_records: int
    """Number in each pass through all kinds of faults."""
    release: str = ""
    """Git revision of the earlier release; empty: the last one of the changelog."""


@dataclass
class Schedule:
    """Which fault comes next: all kinds in random order, again and again until the time is up.

    Those that need clean topics come first.
    """

    faults: Sequence[Fault]
    minutes: float
    rng: random.Random
    clock: Callable[[], float] = time.monotonic
    queue: list[Fault] = field(default_factory=list)
    handled: int = 0

    def __post_init__(self) -> None:
        self._begun = self.clock()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return self.clock() - self._begun

    def next(self) -> Fault | None:
        """The next fault, to be passed to `done`; None when the time is up."""
        if self.handled >= len(self.faults) and self.elapsed_s >= self.minutes * 60:
            return None
        if not self.queue:
            self.queue = self.rng.sample(list(self.faults), len(self.faults))
            # First, while nothing hostile was sent yet.
            self.queue.sort(key=lambda fault: not fault.clean_topics)
        return self.queue[0]

    def done(self) -> None:
        """The next fault was injected or skipped."""
        self.queue.pop(0)
        self.handled += 1

    @property
    def left_s(self) -> float:
        """Estimate of the time that is left."""
        kinds = max(0, len(self.faults) - self.handled)
        each = self.elapsed_s / self.handled if self.handled else 0.0
        return max(self.minutes * 60 - self.elapsed_s, kinds * each)


def run_faults(
    request: Request,
    faults: Sequence[Fault],
    options: Options,
    folder: Path,
    callbacks: Callbacks,
) -> Report:
    """Inject faults in random order, each kind at least once, for about so many minutes.

    Ctrl-C ends it early: what happened until then is audited and reported.
    """
    rng, rounds = random.Random(options.seed), list[Audited]()
    schedule = Schedule(faults, options.minutes, rng)
    futile = 0
    while schedule.next() is not None and futile < _MOST_FUTILE:
        scenario = msgspec.structs.replace(request, seed=request.seed + len(rounds))
        root = folder / f"round-{len(rounds)}"
        handled = schedule.handled
        played = audited(_round(scenario, schedule, options, root, callbacks.line))
        rounds.append(played)
        futile = futile + 1 if schedule.handled == handled else 0
        if played.died:
            callbacks.line(f"round {len(rounds)} ended early: {played.died}")
        callbacks.report(report_of(rounds, schedule.elapsed_s / 60))
        if not report_of([played], 0.0).harmed:
            # Logs are for what went wrong, and topics of an hour would fill a disk.
            shutil.rmtree(root, ignore_errors=True)
        if played.interrupted:
            break
    return report_of(rounds, schedule.elapsed_s / 60)


def _round(
    request: Request, schedule: Schedule, options: Options, root: Path, notify: Notify
) -> Round:
    """One system from its start to the last fault that fits into its scenario."""
    played = Round()
    with serving(FlakyTarget()) as target, serving(FlakySource()) as source:
        environment = environment_for(root) | {
            "HIRL_ACTUATOR_TARGET": target.url,
            "HIRL_COLLECTOR_URL": source.url,
        }
        subject = Subject(
            root, target, source, schedule.rng, options.hostile_records, options.release
        )
        try:
            with system(request, root, environment=environment) as run:
                target.upstream = source.upstream = run.cluster_url
                wait(root, ticks=FIRST_TICKS, timeout_s=_TIMEOUT_S)
                played = _inject_all(subject, schedule, notify)
        except KeyboardInterrupt:
            played = played._replace(interrupted=True)
        except Exception as error:  # noqa: BLE001  an hour's table must not be lost by one round
            (root / "traceback.txt").write_text(traceback.format_exc())
            played = played._replace(died=played.died or f"{type(error).__name__}: {error}")
    return played


def _inject_all(subject: Subject, schedule: Schedule, notify: Notify) -> Round:
    """Inject until the scenario or the time is over; then audit, whatever happened."""
    injected, skipped = list[Injected](), list[NotInjected]()
    died, interrupted, dead = "", False, list[str]()
    last = subject.run.simulation.total_ticks - _LAST_TICKS
    try:
        while (fault := schedule.next()) is not None and subject.tick() <= last:
            if fault.clean_topics and subject.sent:
                break
            notify(_progress(schedule, fault))
            first = subject.tick()
            claims, reason = _inject(fault, subject)
            recovery_s, died = _recover(subject, fault)
            schedule.done()
            if claims is None:
                skipped.append(NotInjected(fault.name, reason))
                notify(f"  skipped: {reason}")
            else:
                window = Window(fault.name, first, subject.tick(), claims)
                injected.append(Injected(window, recovery_s))
            if died or has_ended(subject.run):
                break
        if not died:
            dead = _not_ready(subject.root)
    except KeyboardInterrupt:
        interrupted = True
        notify("interrupted: reading what happened until now")
    return Round(
        injected, skipped, _evidence(subject), subject.tick(), dead, died, subject.sent, interrupted
    )


def _inject(fault: Fault, subject: Subject) -> tuple[Claims | None, str]:
    """What it claims; None and a reason if it cannot be injected."""
    try:
        return fault.inject(subject), ""
    except Skipped as error:
        return None, str(error)
    # A system under faults does not always answer, and in which ways is not foreseeable.
    except Exception as error:  # noqa: BLE001  reported as skipped
        return None, f"{error!r:.200}"


def _recover(subject: Subject, fault: Fault) -> tuple[float, str]:
    """Seconds until the next closed tick; why there is none, or why it does not go on."""
    began = time.monotonic()
    try:
        _pass_ticks(subject.root, 1)
        recovery = time.monotonic() - began
        _pass_ticks(subject.root, QUIET_TICKS)
        # Under an open breaker the next fault could change nothing.
        last = subject.tick() + _CALMING_TICKS - QUIET_TICKS
        while subject.tick() < last and not has_ended(subject.run) and not _is_calm(subject):
            _pass_ticks(subject.root, _CALMING_STEP)
    except (InputError, OSError) as error:
        return time.monotonic() - began, f"{fault.name}: {error}"
    # With the scenario is fine: the round is over. Before that, no tick would close any more.
    early = has_ended(subject.run) and subject.tick() < subject.run.simulation.total_ticks
    return recovery, f"{fault.name}: the collector ended" if early else ""


def _is_calm(subject: Subject) -> bool:
    try:
        return subject.is_calm()
    except (InputError, KafkaError, OSError):
        # A broker that does not answer is not calm, and has a few ticks to recover.
        return False


def _evidence(subject: Subject) -> Evidence | None:
    """Journal, topics, and what was really used; None if they cannot be read."""
    # Outcomes of the last ticks may still be under way.
    with suppress(InputError):
        _pass_ticks(subject.root, 2)
    for _ in range(_ATTEMPTS):
        with suppress(InputError, KafkaError, OSError):
            newest = read_decisions(subject.options, dead_letters=False)
            return Evidence(
                merged([*subject.kept, newest]),
                read_journal(subject.run),
                subject.domains,
                subject.source.used,
                subject.source.full_at,
                _count_dead_letters(subject),
            )
        time.sleep(_PAUSE_S)
    return None


def _count_dead_letters(subject: Subject) -> int:
    with TopicReader(subject.options) as reader:
        found = reader.stream_to_end([topic_of(Rejected).name])
        return sum(isinstance(one.event, Rejected) for one in found)


def _progress(schedule: Schedule, fault: Fault) -> str:
    minutes, left = schedule.elapsed_s / 60, schedule.left_s / 60
    return f"{minutes:5.1f} min, about {left:.0f} left: {fault.name}"


def _pass_ticks(root: Path, count: int) -> None:
    """Wait until `count` ticks that begin after now are closed everywhere."""
    deadline, progress = time.monotonic() + _TIMEOUT_S, None
    while progress is None:
        if time.monotonic() > deadline:
            raise InputError("the simulated cluster does not answer")
        progress = read_progress(record.running(root))
    wait(root, ticks=progress.tick + count + 1, timeout_s=_TIMEOUT_S)


def _not_ready(root: Path) -> list[str]:
    """Services that do not become ready again."""
    deadline, missing = time.monotonic() + _TIMEOUT_S, ["?"]
    while missing and time.monotonic() < deadline:
        run = record.running(root)
        # A collector is done with its scenario, and does not come back.
        missing = [
            spec.name
            for spec in run.specs
            if run.status(spec.name).state != "done" and not is_ready(spec.url)
        ]
        time.sleep(_POLL_S)
    return missing

"""Rounds of faults: start a system, inject, wait for the next closed tick, audit at the end."""

import random
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from models.inputs.errors import InputError
from services.admin.decisions import Decisions, read_decisions
from services.devcluster import record
from services.devcluster.launch import system
from services.devcluster.lifecycle import wait
from services.devcluster.probe import is_ready, read_journal, read_progress
from services.devcluster.request import Request
from services.measure.chaos.audit import Harm, Window, harm_of
from services.measure.chaos.faults import Fault, Place
from services.measure.chaos.flaky_target import FlakyTarget, flaky_target
from services.simcluster.target import Entry

QUIET_TICKS: Final = 18
"""Between two faults, so that each meets a working system and its effects show: three minutes."""
_PATIENCE_S: Final = 240.0
_LAST_TICKS: Final = 40
"""A fault that begins so close to the end of a scenario could not be observed to its end."""
_POLL_S: Final = 0.1

Notify = Callable[[str], None]


class Injected(NamedTuple):
    """One fault as it happened."""

    window: Window
    recovery_s: float
    """From the end of the fault to a tick that began after it and is closed in every domain."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """All injections of one kind of fault."""

    fault: str
    times: int
    lost: int
    doubled: int
    wrong_decreases: int
    holds: int
    """Changes held because of the fault."""
    silenced: int
    """Domains without a budget at the end of the window."""
    next_tick_s: float
    """Median time to the next closed tick."""
    next_tick_most_s: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The table, and what is said below it."""

    rows: list[Row]
    minutes: float
    ticks: int
    changes: int
    """Changes that the target journalled as applied."""
    dead: list[str]
    """Services that were not ready at the end of a round."""
    dead_letters: int


class Round(NamedTuple):
    """What is left of one system."""

    injected: list[Injected]
    decisions: Decisions
    journal: list[Entry]
    ticks: int
    dead: list[str]
    domains: tuple[str, ...]


def torment(
    request: Request,
    faults: Sequence[Fault],
    minutes: float,
    seed: int,
    folder: Path,
    notify: Notify,
) -> Report:
    """Inject faults in random order, each kind at least once, for about so many minutes."""
    rng, rounds, begun = random.Random(seed), list[Round](), time.monotonic()
    left = list(faults)
    rng.shuffle(left)
    while left or time.monotonic() - begun < minutes * 60:
        queue = left or rng.sample(list(faults), len(faults))
        scenario = msgspec.structs.replace(request, seed=request.seed + len(rounds))
        with flaky_target() as target:
            played = _round(scenario, queue, rng, folder / f"round-{len(rounds)}", target, notify)
        rounds.append(played)
        if not played.injected:
            raise InputError("not one fault could be injected: see the logs of the round")
        left = queue[len(played.injected) :] if left else []
    return _report(rounds, (time.monotonic() - begun) / 60)


def _round(
    request: Request,
    queue: Sequence[Fault],
    rng: random.Random,
    root: Path,
    target: FlakyTarget,
    notify: Notify,
) -> Round:
    """One system from its start to the last fault that fits into its scenario."""
    environment = {"HIRL_ACTUATOR_TARGET": target.url}
    with system(request, root, environment=environment) as run:
        target.upstream = run.cluster_url
        wait(root, ticks=QUIET_TICKS, patience_s=_PATIENCE_S)
        place, injected = Place(root, target, rng), list[Injected]()
        for fault in queue:
            if place.tick() > run.simulation.total_ticks - _LAST_TICKS:
                break
            notify(fault.name)
            injected.append(_inject(fault, place))
        dead = _not_ready(root)
        progress = read_progress(record.running(root))
        # Outcomes of the last ticks may still be under way.
        _pass_ticks(root, 2)
        decisions = read_decisions(place.options)
        journal = read_journal(run)
        closed, domains = progress.closed if progress else 0, run.simulation.domains
        return Round(injected, decisions, journal, closed, dead, domains)


def _inject(fault: Fault, place: Place) -> Injected:
    first = place.tick()
    idle = fault.inject(place)
    began = time.monotonic()
    _pass_ticks(place.root, 1)
    recovery = time.monotonic() - began
    _pass_ticks(place.root, QUIET_TICKS)
    return Injected(Window(fault.name, first, place.tick(), idle), recovery)


def _pass_ticks(root: Path, count: int) -> None:
    """Wait until `count` ticks that begin after now are closed everywhere."""
    progress = None
    while progress is None:
        progress = read_progress(record.running(root))
    wait(root, ticks=progress.tick + count + 1, patience_s=_PATIENCE_S)


def _not_ready(root: Path) -> list[str]:
    """Services that do not become ready again."""
    deadline, missing = time.monotonic() + _PATIENCE_S, ["?"]
    while missing and time.monotonic() < deadline:
        missing = [spec.name for spec in record.running(root).specs if not is_ready(spec.url)]
        time.sleep(_POLL_S)
    return missing


def _report(rounds: Sequence[Round], minutes: float) -> Report:
    by_fault: dict[str, list[tuple[Harm, float]]] = {}
    for one in rounds:
        for injected in one.injected:
            harm = harm_of(injected.window, one.decisions, one.journal, one.domains)
            by_fault.setdefault(injected.window.fault, []).append((harm, injected.recovery_s))
    return Report(
        rows=[_row(fault, found) for fault, found in sorted(by_fault.items())],
        minutes=minutes,
        ticks=sum(one.ticks for one in rounds),
        changes=sum(e.outcome == "applied" for one in rounds for e in one.journal),
        dead=[name for one in rounds for name in one.dead],
        dead_letters=sum(len(one.decisions.dead_letters) for one in rounds),
    )


def _row(fault: str, found: Iterable[tuple[Harm, float]]) -> Row:
    harms, recoveries = zip(*found, strict=True)
    seconds = sorted(recoveries)
    return Row(
        fault=fault,
        times=len(harms),
        lost=sum(harm.lost for harm in harms),
        doubled=sum(harm.doubled for harm in harms),
        wrong_decreases=sum(harm.wrong_decreases for harm in harms),
        holds=sum(harm.holds for harm in harms),
        silenced=sum(harm.silenced for harm in harms),
        next_tick_s=seconds[len(seconds) // 2],
        next_tick_most_s=seconds[-1],
    )

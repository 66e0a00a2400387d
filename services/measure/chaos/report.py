"""What is reported: a row per kind of fault, and what is said below the table."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from services.measure.chaos.audit import Evidence, Harm, Window, harm_of


class Injected(NamedTuple):
    """One fault as it happened."""

    window: Window
    recovery_s: float
    """Time from the end of the fault until a tick that began after it is closed everywhere."""


class NotInjected(msgspec.Struct, frozen=True):
    """A fault that could not be injected."""

    fault: str
    reason: str


class Round(NamedTuple):
    """What one system left behind."""

    injected: Sequence[Injected] = ()
    skipped: Sequence[NotInjected] = ()
    evidence: Evidence | None = None
    """None if it could not be read."""
    ticks: int = 0
    dead: Sequence[str] = ()
    died: str = ""
    """Why the round ended early; empty if it did not."""
    hostile_records: int = 0
    interrupted: bool = False


class Audited(NamedTuple):
    """Summary of a round: the evidence of an hour would be too large to keep."""

    harms: Sequence[tuple[str, Harm, float]]
    """Name, harm and time to the next closed tick of each injected fault."""
    skipped: Sequence[NotInjected]
    ticks: int
    changes: int
    dead: Sequence[str]
    died: str
    dead_letters: int
    hostile_records: int
    interrupted: bool


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
    hostile_records: int
    """Records that were sent to do harm, and that a broker accepted."""
    skipped: list[NotInjected]
    """Each kind once, unless another injection of it succeeded."""
    died: list[str]
    """A line for each round that ended early: what followed is not known."""
    interrupted: bool

    @property
    def harmed(self) -> bool:
        """Whether anything happened that must never happen."""
        return bool(self.dead or self.died) or any(
            row.lost or row.doubled or row.wrong_decreases or row.silenced for row in self.rows
        )


def audited(played: Round) -> Audited:
    """Audit a round."""
    evidence, died = played.evidence, played.died
    if evidence is None and played.injected and not died:
        died = f"{played.injected[-1].window.fault}: its journal and topics could not be read"
    return Audited(
        harms=[]
        if evidence is None
        else [
            (one.window.fault, harm_of(one.window, evidence), one.recovery_s)
            for one in played.injected
        ],
        skipped=played.skipped,
        ticks=played.ticks,
        changes=sum(e.outcome == "applied" for e in evidence.journal) if evidence else 0,
        dead=played.dead,
        died=died,
        dead_letters=evidence.dead_letters if evidence else 0,
        hostile_records=played.hostile_records,
        interrupted=played.interrupted,
    )


def report_of(rounds: Sequence[Audited], minutes: float) -> Report:
    """Sum up by kind of fault."""
    by_fault: dict[str, list[tuple[Harm, float]]] = {}
    for one in rounds:
        for fault, harm, recovery_s in one.harms:
            by_fault.setdefault(fault, []).append((harm, recovery_s))
    # By name: a kind that is skipped in every round is listed once.
    skipped = {one.fault: one for round_ in rounds for one in round_.skipped}
    return Report(
        rows=[_row(fault, found) for fault, found in sorted(by_fault.items())],
        minutes=minutes,
        ticks=sum(one.ticks for one in rounds),
        changes=sum(one.changes for one in rounds),
        dead=[name for one in rounds for name in one.dead],
        dead_letters=sum(one.dead_letters for one in rounds),
        hostile_records=sum(one.hostile_records for one in rounds),
        skipped=[one for name, one in sorted(skipped.items()) if name not in by_fault],
        died=[one.died for one in rounds if one.died],
        interrupted=any(one.interrupted for one in rounds),
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

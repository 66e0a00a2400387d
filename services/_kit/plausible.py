"""Which ticks and times a consumer believes: a single record can never move event time.

Ticks follow a *line*: they pass with the wall clock, and the moment of tick 0 stays the same. A
source may really jump, for example when its clock is set, so events off the line are not ignored:

- on the line: believed at once;
- ahead of it, or with another moment of tick 0: refused (dead-lettered); it makes a *claim*;
- the third of a claim in a row, each as much later as its ticks say, while nothing on the old line
  arrives: the claim becomes the line;
- the same where the line is *unconfirmed* (fewer than three ticks): the claim replaces it although
  it is alive, and the key starts over.

A consumer of several sources (one per domain) follows the lower median of their ticks, so a single
domain cannot move it. Sources that have been silent for a minute have no vote.

In lock-step wall time means nothing and no tick is lost: the next tick is the only one to believe.
Only a consumer that the source does not wait for may lose some, and follows three ticks in a row.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import median_low
from typing import Final, NamedTuple, Self, TypeVar

import msgspec

from schemas.fields import TickEvent
from services._kit.errors import Refused
from services._kit.state_codec import Transient
from services._kit.ticks import TickBuffer, parse

T = TypeVar("T")

FUTURE: Final = "tick-from-the-future"
"""Error of a dead letter: a tick that cannot have been reached yet."""
OUT_OF_RANGE: Final = "time-out-of-range"
"""Error of a dead letter: a time that does not belong to its tick, or is ahead of the clock."""
CONFIRMED: Final = 3
"""Ticks in a row that confirm a line: one record or two may be an accident or a forgery."""
_EARLY_S: Final = 30.0
"""Wall seconds by which an event may be earlier than expected, because delays on the way to a
consumer vary. In real time these are three ticks. One record can move a line ahead by no more."""
_FOLLOWED: Final = 0.1
"""How fast the due tick follows early and late events: by this share of the time that passed, and
of a stride at most, because after a silence the source or this consumer may have been late."""
_SILENT_TICKS: Final = 6
"""Without an event for this many ticks, besides the stride, a source has no vote."""
_SILENT_S: Final = 5.0
"""The same, at least, in wall seconds: fast simulations stop for a moment, too."""
_MOST_UNPLACED: Final = 4
"""Open ticks that wait for the first line."""
_CLOCK_S: Final = 300.0
"""Clocks of two machines may differ by this much."""


class Pace(NamedTuple):
    """How event time passes."""

    tick_s: int
    speed: float | None
    """Seconds of event time per wall second; None in lock-step."""
    stride: int = 1
    """Ticks from one event of a source to its next."""
    most_lost: int = 0
    """Ticks in a row that may be lost in lock-step; none where the source waits for us."""

    def ticks(self, wall_s: float) -> float:
        """Ticks that pass in some wall seconds; none if the clock was set back."""
        return 0.0 if self.speed is None else max(0.0, wall_s) * self.speed / self.tick_s

    @property
    def early(self) -> float:
        """Ticks by which an event may be early."""
        return self.ticks(_EARLY_S)

    def silent(self, wall_s: float) -> bool:
        """Whether a source is silent if its last event arrived this long ago."""
        if self.speed is None:
            return False
        ticks = self.ticks(wall_s)
        return wall_s > _SILENT_S and ticks > self.stride + _SILENT_TICKS


class Mark(msgspec.Struct, frozen=True):
    """An event on the axes of ticks and wall time."""

    tick: int
    zero: float
    """Moment of tick 0, in seconds since 1970."""
    date: float
    """Wall time of the arrival, in seconds since 1970."""


class Line(msgspec.Struct, frozen=True):
    """Where ticks are expected."""

    tick: int
    """The newest believed tick."""
    zero: float
    """Moment of tick 0, in seconds since 1970."""
    due_tick: float
    """The tick, with a fraction, that was due at `due_date`."""
    due_date: float
    seen: int = 1
    """Ticks that came in their time, up to CONFIRMED."""
    lead: float = 0.0
    """Ticks by which the due tick was lowered for late events; a late source may catch up."""

    @property
    def confirmed(self) -> bool:
        """Whether a claim replaces it only when it is silent."""
        return self.seen >= CONFIRMED

    def due(self, date: float, pace: Pace) -> float:
        """The tick that is due at a moment."""
        return self.due_tick + pace.ticks(date - self.due_date)

    def reach(self, date: float, pace: Pace) -> int:
        """The last tick to believe at a moment."""
        due, following = self.due(date, pace) + pace.early, self.tick + pace.stride
        if self._is_paced(pace):
            return max(int(due), min(following, int(due + self.lead)))
        # A new line may begin with old events, of which many arrive at once: it is not known yet
        # which tick is due.
        return max(int(due), following)

    def has(self, mark: Mark, pace: Pace) -> bool:
        """Whether an event is on the line."""
        # A confirmed line accepts repeated events of any age. For an unconfirmed one, events far
        # behind it are a sign that it may be wrong.
        behind = max(pace.early, pace.stride + _SILENT_TICKS)
        oldest = -1 if self.confirmed else self.tick - behind
        return self.agrees(mark, pace) and oldest <= mark.tick <= self.reach(mark.date, pace)

    def is_alive(self, date: float, pace: Pace) -> bool:
        """Whether the next ticks may still come: events of a claim may be closer to each other."""
        silent = pace.ticks(date - self.due_date)
        return self._is_paced(pace) and silent < (CONFIRMED - 0.5) * pace.stride

    def agrees(self, mark: Mark, pace: Pace) -> bool:
        """Whether tick and time of an event belong together as they do on the line."""
        return abs(mark.zero - self.zero) <= pace.tick_s

    def advanced(self, tick: int, date: float, pace: Pace) -> "Line":
        """The line after a newer tick."""
        due, passed = self.due(date, pace), pace.ticks(date - self.due_date)
        if not self._is_paced(pace):
            in_time = pace.speed is None or _takes_its_time(tick - self.tick, passed)
            seen = min(self.seen + in_time, CONFIRMED)
            return Line(tick, self.zero, max(due, tick), date, seen)
        # Follow early and late events slowly: many records at once must not move what is due, and
        # after an outage of ours events are late only until we catch up.
        most = _FOLLOWED * min(passed, pace.stride)
        moved = min(most, max(-most, tick - due))
        return Line(tick, self.zero, due + moved, date, self.seen, max(0.0, self.lead - moved))

    def _is_paced(self, pace: Pace) -> bool:
        return self.confirmed and pace.speed is not None


def _line_from(mark: Mark, seen: int = 1) -> Line:
    return Line(mark.tick, mark.zero, mark.tick, mark.date, seen)


def _takes_its_time(ticks: int, due: float) -> bool:
    """Whether ticks came with the wall clock; a burst may be a forgery."""
    return 2 * due >= ticks


class Claim(NamedTuple):
    """Events that are not on the line, but on a common other one."""

    newest: Mark
    times: int = 1

    def followed_by(self, mark: Mark, pace: Pace) -> "Claim":
        """With another event; it starts a claim of its own if it does not fit."""
        before, passed = self.newest, mark.tick - self.newest.tick
        if not passed and mark.zero == before.zero:
            return self
        due = pace.ticks(mark.date - before.date)
        latest = max(pace.stride, due + pace.early)
        if abs(mark.zero - before.zero) > pace.tick_s or not 0 < passed <= latest:
            return Claim(mark)
        in_time = pace.speed is None or _takes_its_time(passed, due)
        return Claim(mark, self.times + in_time)


class Judged(NamedTuple):
    """What to make of an event."""

    timeline: "Timeline"
    refused: Refused | None = None
    moved: bool = False
    """Whether there is a new line: events beyond it are no longer believed."""
    starts_over: bool = False
    """Whether the new line is behind the old one: ticks that were closed there do not count."""


@dataclass(frozen=True)
class Timeline:
    """The line of a key, and what its sources last said."""

    saved: Line | None = None
    """As of the last closed tick."""
    newer: Transient[Line | None] = None
    marks: Transient[Mapping[str, Mark]] = field(default_factory=dict)
    """The last event of each voter, believed or not."""
    claim: Transient[Claim | None] = None
    began: Transient[float | None] = None
    """Wall time of the first event in this process."""

    @property
    def line(self) -> Line | None:
        """The newest line; None before the first event."""
        return self.newer or self.saved

    @property
    def tick(self) -> int:
        """The newest believed tick; -1 before the first."""
        return -1 if self.line is None else self.line.tick

    def reached(self, date: float, pace: Pace) -> int:
        """The tick that most sources have reached, or whose time is long over."""
        if self.line is None:
            return -1
        over = self.line.due(date, pace) - pace.stride - _SILENT_TICKS
        return max(self.line.tick, int(over))

    def is_over(self, tick: int, closed: int) -> bool:
        """Whether an event is too late for anything, even for a claim."""
        confirmed = self.line is None or self.line.confirmed
        return tick <= closed and confirmed

    def settled(self) -> Self:
        """Save the line, together with the tick that closes now."""
        return self if self.newer is None else replace(self, saved=self.newer, newer=None)

    def judge(
        self,
        name: str,
        event: TickEvent,
        date: float,
        pace: Pace,
        voters: frozenset[str] = frozenset(),
    ) -> Judged:
        """Believe or refuse an event of source `name`; without `voters` there is only this one."""
        voters = voters or frozenset({name})
        mark = _mark_of(event, date, pace)
        if pace.speed is not None and _is_ahead_of_clock(mark, pace):
            return Judged(self, _ahead_of_clock(event, date))
        marks = {**self.marks, name: mark} if name in voters else self.marks
        began = date if self.began is None else self.began
        updated = replace(self, marks=marks, began=began)
        return updated._placed(mark, pace, voters)  # noqa: SLF001  its own

    def _placed(self, mark: Mark, pace: Pace, voters: frozenset[str]) -> Judged:
        line = self.line
        if line is None:
            return self._begun(mark, pace, voters)
        if line.has(mark, pace):
            return Judged(self._advanced(line, mark.date, pace, voters))
        return self._claimed(line, mark, pace, voters)

    def _begun(self, mark: Mark, pace: Pace, voters: frozenset[str]) -> Judged:
        """Before the first line: most voters make one, or a few with a claim."""
        present = sorted(self.marks.values(), key=lambda one: one.tick)
        if not present:
            return Judged(self)
        absent = len(voters) - len(present)
        index = (len(voters) - 1) // 2 - absent
        lowest = present[max(0, index)]
        zero = median_low(one.zero for one in present)
        chosen = msgspec.structs.replace(lowest, zero=zero)
        if index >= 0:
            return self._on(_line_from(chosen), mark, pace)
        claim = Claim(chosen) if self.claim is None else self.claim.followed_by(chosen, pace)
        if claim.times >= CONFIRMED:
            return self._on(_line_from(chosen, CONFIRMED), mark, pace)
        return Judged(replace(self, claim=claim))

    def _on(self, line: Line, mark: Mark, pace: Pace) -> Judged:
        """On another line from now on."""
        refused = None if line.has(mark, pace) else _refusal(line, mark, pace)
        return Judged(replace(self, newer=line, claim=None), refused, moved=True)

    def _advanced(self, line: Line, date: float, pace: Pace, voters: frozenset[str]) -> Self:
        tick = self._median(line, date, pace, voters)
        if tick <= line.tick:
            return self
        # While the line is alive there is nothing to claim.
        claim = None if line.confirmed else self.claim
        return replace(self, newer=line.advanced(tick, date, pace), claim=claim)

    def _median(self, line: Line, date: float, pace: Pace, voters: frozenset[str]) -> int:
        """The tick that most voters have reached; one that is off the line counts as silent."""
        ticks = [
            mark.tick if mark is not None and line.has(mark, pace) else line.tick
            for mark in self._votes(date, pace, voters)
        ]
        return median_low(ticks) if ticks else line.tick

    def _votes(self, date: float, pace: Pace, voters: frozenset[str]) -> list[Mark | None]:
        """The last event of each voter that is not silent; None if it has yet to report."""
        began = date if self.began is None else self.began
        votes = [self.marks.get(name) for name in voters]
        return [
            mark for mark in votes if not pace.silent(date - (began if mark is None else mark.date))
        ]

    def _claimed(self, line: Line, mark: Mark, pace: Pace, voters: frozenset[str]) -> Judged:
        """Refuse an event, unless it completes the claim of another line."""
        refused = _refusal(line, mark, pace)
        votes = self._votes(mark.date, pace, voters)
        against = sorted(
            (one for one in votes if one is not None and not line.has(one, pace)),
            key=lambda one: one.tick,
        )
        # A claim needs a majority: one domain of several cannot make one.
        if 2 * len(against) <= len(votes):
            return Judged(self, refused)
        chosen = against[(len(votes) - 1) // 2 - (len(votes) - len(against))]
        behind = chosen.tick <= line.tick
        # Ticks of a real cluster count from 1970, whatever its clock says.
        wrong = _is_real(line.zero, pace) and not line.agrees(chosen, pace)
        if line.confirmed and (behind or wrong):
            return Judged(self, refused)
        claim = Claim(chosen) if self.claim is None else self.claim.followed_by(chosen, pace)
        if pace.speed is None:
            # A source that waits sends no second event, so the first has to be enough.
            if behind:
                return self._on(_line_from(chosen), mark, pace)._replace(starts_over=True)
            # A jump is wrong, unless the source goes on without the consumer. The clock cannot
            # confirm it, so the line stays unconfirmed: the next true event replaces a forged one.
            if not 0 < chosen.tick - line.tick - 1 <= pace.most_lost:
                return Judged(self, refused)
        if claim.times < CONFIRMED or line.is_alive(chosen.date, pace):
            return Judged(replace(self, claim=claim), refused)
        seen = 1 if pace.speed is None else CONFIRMED
        return self._on(_line_from(chosen, seen), mark, pace)._replace(starts_over=behind)


def following(buffer: TickBuffer[T], judged: Judged, date: float, pace: Pace) -> TickBuffer[T]:
    """The open ticks without those that are no longer believed."""
    line = judged.timeline.line
    if line is None or not judged.moved:
        return buffer
    if judged.starts_over:
        buffer = buffer.reopened(line.tick)
    return buffer.up_to(line.reach(date, pace))


def bounded(buffer: TickBuffer[T], timeline: Timeline) -> TickBuffer[T]:
    """The open ticks; before the first line, while none of them can close, only the newest few."""
    # The newest by arrival: it is not known yet which ticks are wrong.
    excess = len(buffer.events) - _MOST_UNPLACED
    if timeline.line is not None or excess <= 0:
        return buffer
    oldest = sorted(buffer.events, key=lambda tick: buffer.since[tick])[:excess]
    return buffer.without(frozenset(oldest))


def _mark_of(event: TickEvent, date: float, pace: Pace) -> Mark:
    moment = parse(event.time).timestamp()
    return Mark(event.tick, moment - event.tick * pace.tick_s, date)


def _is_ahead_of_clock(mark: Mark, pace: Pace) -> bool:
    """Whether a real cluster's event is from the future.

    Ticks of a real cluster count from 1970. A simulated one has a date of its own.
    """
    moment = mark.tick * pace.tick_s
    return _is_real(mark.zero, pace) and moment > mark.date + _CLOCK_S


def _is_real(zero: float, pace: Pace) -> bool:
    """Whether tick 0 is in 1970."""
    return abs(zero) <= pace.tick_s


def _ahead_of_clock(event: TickEvent, date: float) -> Refused:
    ahead = parse(event.time).timestamp() - date
    return Refused(
        OUT_OF_RANGE,
        f"expected a time up to {_CLOCK_S:.0f} s after this machine's clock, "
        f"got {event.time}, {ahead:.0f} s after it",
    )


def _refusal(line: Line, mark: Mark, pace: Pace) -> Refused:
    if not line.agrees(mark, pace):
        shift = mark.zero - line.zero
        return Refused(
            OUT_OF_RANGE,
            f"expected tick and time to agree with earlier events, got tick {mark.tick} with a "
            f"time that differs by {shift:.0f} s",
        )
    reach = line.reach(mark.date, pace)
    return Refused(FUTURE, f"expected a tick from {line.tick} to {reach}, got {mark.tick}")

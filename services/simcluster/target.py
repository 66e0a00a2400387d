"""The part of a cluster that controllers write to: the last decision of each app, and a journal.

A decision is applied at most once: it is stored with its app, and repeating it changes nothing. A
decision for an older tick than the domain's newest is superseded, and so is another decision for
the same tick: a tick is decided once. A change that names other numbers than the app has now is in
conflict, as with a resource version in Kubernetes. The journal has every write, applied or not.
"""

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from schemas.fields import Name

Whole = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Outcome = Literal["applied", "repeat", "superseded", "conflict", "refused"]
"""applied: stored, and carried out in the next step. repeat: the decision was stored before.
superseded: the domain has a newer decision, or another one for the same tick. conflict: the app's
numbers are not those that the change was decided against. refused: the app is not in the domain
now."""


class Numbers(msgspec.Struct, frozen=True):
    """What can be set on an app."""

    replicas: Whole
    cpu_request: Whole
    """Millicores per pod."""
    memory_request: Whole
    """MiB per pod."""


class Present(msgspec.Struct, frozen=True):
    """What an app has now."""

    replicas: int
    """Changes that wait for the next step count as made; likewise below."""
    cpu_request: int
    memory_request: int
    ready: int
    starting: int
    pending: int

    @property
    def numbers(self) -> Numbers:
        """The part that can be set."""
        return Numbers(self.replicas, self.cpu_request, self.memory_request)


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One app's numbers and the decision they come from."""

    app: Name
    replicas: Whole
    cpu_request: Whole
    """Millicores per pod; 0 keeps the present value."""
    memory_request: Whole
    """MiB per pod; 0 keeps the present value."""
    decision_id: Annotated[str, Meta(min_length=1, max_length=512)]
    before: Numbers | None = None
    """The numbers that it was decided against; null: whatever they are."""

    def applied_to(self, now: Numbers) -> Numbers:
        """Numbers of an app after the change."""
        return Numbers(
            self.replicas,
            self.cpu_request or now.cpu_request,
            self.memory_request or now.memory_request,
        )


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the journal."""

    sequence: int
    tick: int
    """Tick of the decision."""
    arrived_tick: int
    """Tick of the cluster at arrival; the change is part of the step that begins there."""
    domain: str
    app: str
    decision_id: str
    outcome: Outcome
    before: Numbers | None
    """None if the app is not in the domain."""
    after: Numbers | None
    changed: bool
    """Whether the numbers differ from those before."""


class Stored(NamedTuple):
    """Last decision of an app."""

    decision_id: str
    numbers: Numbers
    present: Present


class _Decision(NamedTuple):
    decision_id: str
    numbers: Numbers


class Closed(NamedTuple):
    """The newest tick with a write for a domain."""

    tick: int
    decisions: frozenset[str]
    """Ids; empty where nothing was changed."""


_NEVER = Closed(-1, frozenset())


class Target:
    """Last decisions by app, and closed ticks by domain."""

    def __init__(self) -> None:
        self.journal: list[Entry] = []
        """All writes, append-only."""
        self._closed: dict[str, Closed] = {}
        self._stored: dict[str, _Decision] = {}
        self._waiting: dict[str, Numbers] = {}

    def closed_tick(self, domain: str) -> int:
        """The newest closed tick; -1 before the first."""
        return self._closed.get(domain, _NEVER).tick

    def write(
        self,
        domain: str,
        tick: int,
        changes: Sequence[Change],
        present: dict[str, Present],
        arrived_tick: int,
    ) -> list[Entry]:
        """Apply new changes and close the tick; an empty list closes it too.

        `present` are the apps of the domain now, with their numbers.
        """
        # Read before the loop: changes of one write must not supersede each other.
        newest = self._closed.get(domain, _NEVER)
        entries = [
            self._write_one(domain, tick, newest, change, present, arrived_tick)
            for change in changes
        ]
        # A late write never reopens a tick: closed ticks only grow.
        if tick > newest.tick:
            self._closed[domain] = Closed(tick, frozenset(c.decision_id for c in changes))
        return entries

    def _write_one(
        self,
        domain: str,
        tick: int,
        newest: Closed,
        change: Change,
        present: dict[str, Present],
        arrived_tick: int,
    ) -> Entry:
        now = present.get(change.app)
        before = after = None if now is None else self._with_waiting(change.app, now).numbers
        # A write may be repeated after a lost answer: what it has not stored yet still applies.
        fresh = tick > newest.tick or (
            tick == newest.tick and change.decision_id in newest.decisions
        )
        outcome = self._outcome(change, before, superseded=not fresh)
        if before is not None and outcome == "applied":
            after = change.applied_to(before)
            self._stored[change.app] = _Decision(change.decision_id, after)
            self._waiting[change.app] = after
        entry = Entry(
            sequence=len(self.journal),
            tick=tick,
            arrived_tick=arrived_tick,
            domain=domain,
            app=change.app,
            decision_id=change.decision_id,
            outcome=outcome,
            before=before,
            after=after,
            changed=after != before,
        )
        self.journal.append(entry)
        return entry

    def _with_waiting(self, app: str, now: Present) -> Present:
        asked = self._waiting.get(app)
        if asked is None:
            return now
        return msgspec.structs.replace(now, **msgspec.structs.asdict(asked))

    def _outcome(self, change: Change, before: Numbers | None, *, superseded: bool) -> Outcome:
        if before is None:
            return "refused"
        stored = self._stored.get(change.app)
        # Checked before its age: a controller that repeats a write needs to know it was applied.
        if stored is not None and stored.decision_id == change.decision_id:
            return "repeat"
        if superseded:
            return "superseded"
        return "applied" if change.before in (None, before) else "conflict"

    def read_back(self, present: dict[str, Present]) -> dict[str, Stored]:
        """Last decision of each app, and what it has now; without a decision, both are the same."""
        found = {}
        for app, status in present.items():
            now = self._with_waiting(app, status)
            last = self._stored.get(app, _Decision("", now.numbers))
            found[app] = Stored(last.decision_id, last.numbers, now)
        return found

    def take(self) -> dict[str, Numbers]:
        """Changes for the next step; handed out once."""
        waiting, self._waiting = self._waiting, {}
        return waiting

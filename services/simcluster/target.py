"""The part of a cluster that controllers write to: what was asked of each app, and by whom.

A decision is taken at most once: the last decision is stored with each app, its repetition
changes nothing. One that is older than what the domain was told last is superseded, and so is
another decision for the same tick: a tick is decided once. Everything
that was asked, taken or not, stands in the journal.
"""

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from schemas.fields import Name

Whole = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Outcome = Literal["applied", "repeat", "superseded", "refused"]
"""applied: stored, to be carried out in the next step. repeat: that decision was stored before.
superseded: the domain has been told something newer, or something else for the same tick. refused:
the domain has no such app now."""


class Numbers(msgspec.Struct, frozen=True):
    """What can be asked of an app."""

    replicas: Whole
    cpu_request: Whole
    """Millicores per pod."""
    memory_request: Whole
    """MiB per pod."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One app's numbers and the decision they come from."""

    app: Name
    replicas: Whole
    cpu_request: Whole
    """Millicores per pod; 0 leaves them as they are."""
    memory_request: Whole
    """MiB per pod; 0 leaves them as they are."""
    decision_id: Annotated[str, Meta(min_length=1, max_length=512)]

    def asked_of(self, now: Numbers) -> Numbers:
        """What an app is to have that has `now`."""
        return Numbers(
            self.replicas,
            self.cpu_request or now.cpu_request,
            self.memory_request or now.memory_request,
        )


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the journal."""

    sequence: int
    tick: int
    """That the decision is for."""
    arrived_tick: int
    """At which the cluster was; the change is part of the step that begins there."""
    domain: str
    app: str
    decision_id: str
    outcome: Outcome
    before: Numbers | None
    """None where the domain has no such app."""
    after: Numbers | None
    changed: bool
    """Whether something was asked that was not so already."""


class Stored(NamedTuple):
    """What was asked of an app last."""

    decision_id: str
    numbers: Numbers


class Closed(NamedTuple):
    """The newest tick that a domain was told about."""

    tick: int
    decisions: frozenset[str]
    """None where nothing was to change."""


_NEVER = Closed(-1, frozenset())


class Target:
    """What controllers asked for, by app; and which ticks they have closed, by domain."""

    def __init__(self) -> None:
        self.journal: list[Entry] = []
        """Append-only."""
        self._closed: dict[str, Closed] = {}
        self._stored: dict[str, Stored] = {}
        self._waiting: dict[str, Numbers] = {}

    def closed_tick(self, domain: str) -> int:
        """The newest tick that was closed; -1 before the first."""
        return self._closed.get(domain, _NEVER).tick

    def write(
        self,
        domain: str,
        tick: int,
        changes: Sequence[Change],
        present: dict[str, Numbers],
        arrived_tick: int,
    ) -> list[Entry]:
        """Take what is new of some changes, and close the tick; none at all closes it too.

        `present` are the apps that the domain has now, with the numbers they have.
        """
        newest = self._closed.get(domain, _NEVER)
        entries = [
            self._write_one(domain, tick, newest, change, present, arrived_tick)
            for change in changes
        ]
        if tick > newest.tick:
            self._closed[domain] = Closed(tick, frozenset(c.decision_id for c in changes))
        return entries

    def _write_one(
        self,
        domain: str,
        tick: int,
        newest: Closed,
        change: Change,
        present: dict[str, Numbers],
        arrived_tick: int,
    ) -> Entry:
        before = after = self._before(change.app, present)
        fresh = tick > newest.tick or (
            tick == newest.tick and change.decision_id in newest.decisions
        )
        outcome = self._judge(change, present, superseded=not fresh)
        if before is not None and outcome == "applied":
            after = change.asked_of(before)
            self._stored[change.app] = Stored(change.decision_id, after)
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

    def _before(self, app: str, present: dict[str, Numbers]) -> Numbers | None:
        """What waits to be carried out counts as if it were so."""
        return self._waiting.get(app) if app in self._waiting else present.get(app)

    def _judge(self, change: Change, present: dict[str, Numbers], *, superseded: bool) -> Outcome:
        if change.app not in present:
            return "refused"
        stored = self._stored.get(change.app)
        # Before its age is looked at: whoever repeats a write wants to know that it was taken.
        if stored is not None and stored.decision_id == change.decision_id:
            return "repeat"
        return "superseded" if superseded else "applied"

    def read_back(self, present: dict[str, Numbers]) -> dict[str, Stored]:
        """The last decision of each app and what it asked for; without one, what the app has."""
        return {app: self._stored.get(app, Stored("", now)) for app, now in present.items()}

    def take(self) -> dict[str, Numbers]:
        """What is to be carried out in this step, once."""
        waiting, self._waiting = self._waiting, {}
        return waiting

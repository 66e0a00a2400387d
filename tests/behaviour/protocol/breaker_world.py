"""The breakers of one or two domains, and the cluster's, under every order of good and bad ticks.

Each tick of a domain is good, bad, full of errors, or lost. Frames may be late or delivered again,
and processes restart, with or without their states. A ghost follows what each breaker publishes.

A breaker writes nothing outside of Kafka, and a step is one commit. So a crash before the commit
leaves no trace, and a paused process that was replaced is fenced at its next commit: both are a
restart.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import msgspec

from schemas.breaker_changed import BreakerChanged
from services._kit.clock import ManualClock
from services._kit.handler import CLUSTER
from services.breaker.cluster import LEAD_TICKS
from services.breaker.decide import BreakerHandler
from tests.behaviour.protocol.breaker_events import (
    AGAIN,
    BEGIN,
    CLUSTER_LIMITS,
    IMPLAUSIBLE,
    LIMITS,
    LOSS,
    NONE,
    PLAUSIBLE,
    RESTART,
    STALE_S,
    TICK_S,
    Scenario,
    budget,
    cluster_of,
    frame,
)
from tests.behaviour.protocol.breaker_ghost import Ghost, wrong_turn
from tests.behaviour.protocol.process import Process, begin, resume
from tests.behaviour.protocol.turns import DONE, Commit, Known, Processes, States, Turn

Published = tuple[tuple[str, tuple[bytes, ...]], ...]


class Domain(NamedTuple):
    """A domain, its process and what is on its topics."""

    process: Process
    saved: bytes | None = None
    waiting: tuple[tuple[int, str], ...] = ()
    """Frames that were published and not taken, by tick and kind."""
    last: tuple[int, str] | None = None
    """The last frame that was taken."""
    heard_at: float = BEGIN
    """When a frame was taken last, or the process started."""
    zombie: Process | None = None
    """Where nothing is fenced: the process before the last, which its timer may wake."""


class World(NamedTuple):
    """Everything at some moment."""

    tick: int
    domains: tuple[Domain, ...]
    published: Published
    """By scope: the event that counts, and those after it that don't, in order."""
    ghosts: tuple[Ghost, ...]
    """Of the domains, then of the cluster."""
    share: float
    """Of the newest budget."""
    faults: tuple[int, ...]
    left: int
    """Faults that may still occur: by kind, and in all."""
    problem: str = ""

    def spent(self, kind: int) -> "World":
        """With a fault less to come."""
        left = tuple(most - (at == kind) for at, most in enumerate(self.faults))
        return self._replace(faults=left, left=self.left - 1)

    @property
    def now(self) -> float:
        """The present, by every clock."""
        return BEGIN + TICK_S * self.tick

    @property
    def known(self) -> Known:
        """What a process knows that has learned everything."""
        return self.published, self.share


class BreakerModel:
    """What can happen to a world."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self._cluster = cluster_of(scenario.domains)
        self._processes = Processes(self._handler)
        self._events: dict[bytes, BreakerChanged] = {}

    def close(self) -> None:
        self._processes.close()

    # The model.

    def start(self) -> World:
        limits, count = self.scenario.faults, len(self.scenario.domains)
        world = World(
            tick=0,
            domains=(Domain(Process(((), PLAUSIBLE))),) * count,
            published=(),
            ghosts=(Ghost(),) * (count + 1),
            share=PLAUSIBLE,
            faults=tuple(limits.get(kind, 0) for kind in range(AGAIN + 1)),
            left=self.scenario.most_faults,
        )
        for index in range(count):
            world = self._restarted(world, index)
        return world

    def steps(self, world: World) -> Iterator[tuple[str, World]]:
        yield from self._work(world)
        if world.tick < self.scenario.ticks:
            yield from self._next_ticks(world)
        if world.left:
            yield from self._faults(world)

    def calm_step(self, world: World) -> tuple[str, World] | None:
        return next(self._work(world), None)

    def wrong(self, world: World) -> str:
        return world.problem

    def wrong_at_rest(self, world: World) -> str:
        for index, name in enumerate(self.scenario.domains):
            state = world.ghosts[index].state
            silent = world.now - world.domains[index].heard_at >= STALE_S
            if silent and state in ("closed", "half-open") and not self.scenario.lock_step:
                return f"{name} is {state} without a frame for {STALE_S:.0f} s"
        return ""

    def seen(self, world: World) -> Iterator[str]:
        for name, ghost in zip((*self.scenario.domains, CLUSTER), world.ghosts, strict=True):
            yield f"{name}: {ghost.state}"

    # What happens without a fault.

    def _work(self, world: World) -> Iterator[tuple[str, World]]:
        for index, domain in enumerate(world.domains):
            name, process = self.scenario.domains[index], domain.process
            if domain.waiting and not self._lags(world, process, domain.waiting[0][0]):
                tick, kind = domain.waiting[0]
                taken = domain._replace(
                    waiting=domain.waiting[1:], last=(tick, kind), heard_at=world.now
                )
                turn = Turn(world.now, process.known, frame(name, tick, kind))
                after = self._turned(_with(world, index, taken), index, turn, kind)
                yield f"{name} takes its {kind} frame {tick}", after
            if process.is_due(world.now):
                turn = Turn(world.now, process.known)
                yield f"{name} is woken", self._turned(world, index, turn)
            if process.known != world.known:
                learned = domain._replace(process=process._replace(known=world.known))
                yield f"{name} learns what is published", _with(world, index, learned)
            if domain.zombie is not None and domain.zombie.is_due(world.now):
                turn = Turn(world.now, domain.zombie.known)
                resumed = _with(world, index, domain._replace(process=domain.zombie, zombie=None))
                gone = self._turned(resumed, index, turn)
                back = gone.domains[index]._replace(process=process)
                yield f"the zombie of {name} is woken", _with(gone, index, back)

    def _turned(self, world: World, index: int, turn: Turn, kind: str | None = None) -> World:
        """A whole turn: it has one commit at most."""
        domain = world.domains[index]
        process = begin(self._processes, domain.process, turn)
        if isinstance(process.point, Commit):
            ((_, saved),) = process.point.states
            world = self._publish(world, index, process.point, kind)
            domain = domain._replace(saved=saved)
            point = process.point
            process = resume(self._processes, process, DONE, world.now)
            process = self._with_own(process, point)
        assert process.turn is None
        return _with(world, index, domain._replace(process=process))

    def _publish(self, world: World, index: int, point: Commit, kind: str | None) -> World:
        events = [self._event(value) for _, value in point.records]
        published, ghosts = dict(world.published), list(world.ghosts)
        problem = _overwritten(world.domains[index], point)
        problem = problem or self._out_of_order(world, index, events)
        for event, (_, value) in zip(events, point.records, strict=True):
            at = -1 if event.scope == CLUSTER else index
            before = ghosts[at]
            if before.overrules(event):
                published[event.scope] = (*published[event.scope], value)
                continue
            # Two domains may lead in one tick: both follow the tick before.
            if at == -1 and event.tick == before.tick and before.earlier is not None:
                before = before.earlier
            plausible = world.share == PLAUSIBLE
            judged = (
                before.followed(plausible=plausible) if at == -1 else before.judged(event, kind)
            )
            problem = problem or wrong_turn(before, judged, event)
            ghosts[at] = judged.turned(before, event)
            published[event.scope] = (value,)
        silence = max((event.tick for event in events), default=-1) - ghosts[-1].tick
        if not problem and silence > LEAD_TICKS:
            problem = f"the cluster has had no breaker for {silence} ticks"
        return world._replace(
            published=tuple(sorted(published.items())), ghosts=tuple(ghosts), problem=problem
        )

    def _out_of_order(self, world: World, index: int, events: Sequence[BreakerChanged]) -> str:
        """Whether an event is older than one of its scope that the process could know."""
        for event in events:
            newest = world.ghosts[index].tick
            if event.scope == CLUSTER:
                newest = self._known_tick(world.domains[index].process, CLUSTER)
            if event.tick < newest:
                return f"{event.scope}@{event.tick} follows @{newest}"
        return ""

    def _known_tick(self, process: Process, scope: str) -> int:
        """Tick of the newest event that a process knows of a scope; -1 if none."""
        assert isinstance(process.known, tuple)
        known = dict(process.known[0]).get(scope, ())
        return max((self._event(value).tick for value in known), default=-1)

    def _with_own(self, process: Process, point: Commit) -> Process:
        """The process after its commit: its own events come back at once."""
        assert isinstance(process.known, tuple)
        published, share = process.known
        known = dict(published)
        for _, value in point.records:
            scope, tick = self._event(value).scope, self._event(value).tick
            newer = tick > self._known_tick(process, scope)
            known[scope] = (value,) if newer else (*known[scope], value)
        return process._replace(known=(tuple(sorted(known.items())), share))

    def _lags(self, world: World, process: Process, tick: int) -> bool:
        """Whether a process has to learn first: reference topics are only so far behind."""
        assert isinstance(process.known, tuple)
        published, share = process.known
        return share != world.share or any(
            self._known_tick(process, scope) < tick - 1 - self.scenario.most_lag
            for scope, _ in set(world.published) - set(published)
        )

    def _next_ticks(self, world: World) -> Iterator[tuple[str, World]]:
        if any(len(domain.waiting) > self.scenario.most_late for domain in world.domains):
            return
        tick, before = world.tick + 1, self.scenario.before
        kinds = before[world.tick : tick] or self.scenario.kinds
        shares = (PLAUSIBLE, IMPLAUSIBLE) if self.scenario.budgets else (world.share,)
        for chosen, share in product(product(kinds, repeat=len(world.domains)), shares):
            after = world._replace(tick=tick, share=share)
            for index, kind in enumerate(chosen):
                if kind != NONE:
                    domain = world.domains[index]
                    sent = domain._replace(waiting=(*domain.waiting, (tick, kind)))
                    after = _with(after, index, sent)
            about = "" if share == world.share else f", shares of {share:g} granted"
            yield f"tick {tick}: {', '.join(chosen)} frame{about}", after

    # Faults.

    def _faults(self, world: World) -> Iterator[tuple[str, World]]:
        for index, domain in enumerate(world.domains):
            name = self.scenario.domains[index]
            if world.faults[RESTART]:
                yield f"{name} restarts", self._restarted(world, index).spent(RESTART)
            if world.faults[LOSS] and domain.saved is not None:
                for saved, what in ((b"?", "unreadable"), (None, "gone")):
                    ghosts = list(world.ghosts)
                    ghosts[index] = ghosts[index].lost()
                    lost = _with(world, index, domain._replace(saved=saved))
                    lost = self._restarted(lost._replace(ghosts=tuple(ghosts)), index)
                    yield f"{name} restarts, its state is {what}", lost.spent(LOSS)
            if world.faults[AGAIN] and domain.last is not None:
                tick, kind = domain.last
                turn = Turn(world.now, domain.process.known, frame(name, tick, kind))
                again = self._turned(world, index, turn, kind).spent(AGAIN)
                yield f"{name} takes its {kind} frame {tick} again", again

    def _restarted(self, world: World, index: int) -> World:
        domain, name = world.domains[index], self.scenario.domains[index]
        saved: States = () if domain.saved is None else ((name, domain.saved),)
        # A process measures silence from its start: its clock means nothing to another one.
        started = domain._replace(process=Process(world.known), heard_at=world.now)
        if not self.scenario.fences and domain.process.memory is not None:
            started = started._replace(zombie=domain.process)
        turn = Turn(world.now, world.known, restored=saved)
        return self._turned(_with(world, index, started), index, turn)

    # Processes.

    def _handler(self, known: Known) -> BreakerHandler:
        assert isinstance(known, tuple)
        published, share = known
        stale = None if self.scenario.lock_step else STALE_S
        handler = self.scenario.handler(self._cluster, LIMITS, stale, CLUSTER_LIMITS)
        events = [self._event(value) for _, values in published for value in values]
        for event in (*events, budget(share)):
            handler.learn_recorded(event, BEGIN, ManualClock(BEGIN))
        return handler

    def _event(self, value: bytes) -> BreakerChanged:
        if value not in self._events:
            self._events[value] = msgspec.json.decode(value, type=BreakerChanged)
        return self._events[value]


def _overwritten(domain: Domain, point: Commit) -> str:
    """Whether a state is replaced by a process that did not know it."""
    believed = next((data for _, data in point.based_on), None)
    # An unreadable state is replaced by the process that cannot read it.
    if believed == domain.saved:
        return ""
    return "a state is overwritten by a process that did not know it"


def _with(world: World, index: int, domain: Domain) -> World:
    return world._replace(domains=(*world.domains[:index], domain, *world.domains[index + 1 :]))

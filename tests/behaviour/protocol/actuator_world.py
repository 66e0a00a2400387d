"""The actuator between Kafka and its target: plan, apply, journal, restart, take-over.

A world has one domain of two apps, the records of a few ticks, and the actuator that owns the
domain. Whatever network, brokers, crashes, take-overs, other owners of an app or time can do is a
step. Faults are counted, and only so many of each kind occur.

Kafka's rules: a step's events and state are committed together or not at all; only the last owner
can commit; offsets are committed now and then, and a new owner begins there; each topic has an
order, and there is none between topics.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from schemas.scale_applied import ScaleApplied
from schemas.topics import topic_of
from services._kit.clock import ManualClock
from services._kit.records import Delivery
from services.actuator.decide import ActuatorHandler
from services.actuator.settings import Modes
from tests.behaviour.protocol.actuator_events import (
    APPS,
    BEGIN,
    DUPLICATE,
    FOREIGN,
    GRACE,
    GRACE_S,
    LOSS,
    MINUTE,
    NETWORK,
    STALE_S,
    TOPICS,
    Scenario,
    log_of,
    name_of_point,
    name_of_record,
    name_of_reference,
    numbers,
    plans_of,
    tick_of,
)
from tests.behaviour.protocol.actuator_rules import (
    Saved,
    disagreement,
    forbidden,
    older,
    outcome_of,
    saved_of,
    watching,
)
from tests.behaviour.protocol.process import Process, begin, resume
from tests.behaviour.protocol.target import Cluster, clients_of, serve
from tests.behaviour.protocol.turns import (
    DONE,
    GIVEN_UP,
    LOST,
    REJECTED,
    Commit,
    Known,
    Processes,
    Request,
    States,
    Turn,
)
from tests.service_helpers import CLUSTER, DOMAIN, declared, heartbeat

_FOREIGN: Final = 11
"""Replicas that another owner gives the first app."""


class World(NamedTuple):
    """Everything at some moment."""

    owner: Process | None
    zombie: Process | None
    """Where nothing is fenced: the owner before a take-over, which goes on at any time."""
    committed: tuple[int, ...]
    """Offsets of the group by topic."""
    saved: States
    """The state topic."""
    outcomes: tuple[bytes, ...]
    """Committed events."""
    cluster: Cluster
    late: tuple[Request, ...]
    """Requests whose sender has given up or was replaced, and that still arrive."""
    published: int
    """How much of the reference topics is published."""
    now: float
    faults: tuple[int, ...]
    """Faults that may still occur by kind."""
    left: int
    """Faults that may still occur in all."""
    problem: str = ""

    def delayed(self, request: Request) -> "World":
        """With a request on its way."""
        return self._replace(late=tuple(sorted((*self.late, request))))

    def spent(self, kind: int) -> "World":
        """With a fault less to come."""
        left = tuple(most - (at == kind) for at, most in enumerate(self.faults))
        return self._replace(faults=left, left=self.left - 1)


class ActuatorModel:
    """What can happen to a world."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self._log, self._plans = log_of(scenario), plans_of(scenario)
        self._handler_type = watching(scenario.handler)
        self._states: dict[bytes, Saved] = {}
        self._processes = Processes(self._handler, scenario.engine, clients_of(scenario.client))

    def close(self) -> None:
        self._processes.close()

    # The model.

    def start(self) -> World:
        limits = self.scenario.faults
        world = World(
            owner=None,
            zombie=None,
            committed=(0,) * len(TOPICS),
            saved=(),
            outcomes=(),
            cluster=Cluster(tuple((app, numbers(10)) for app in APPS)),
            late=(),
            published=0,
            now=BEGIN,
            faults=tuple(limits.get(kind, 0) for kind in range(MINUTE + 1)),
            left=self.scenario.most_faults,
        )
        return self._started(world)

    def steps(self, world: World) -> Iterator[tuple[str, World]]:
        yield from self._work(world)
        if world.left:
            yield from self._faults(world)

    def calm_step(self, world: World) -> tuple[str, World] | None:
        for step in self._work(world):
            return step
        # Nothing else to do: time passes until something is due.
        memory = None if world.owner is None else world.owner.memory
        if memory is None or memory.due is None:
            return None
        return "time passes", world._replace(now=max(world.now, memory.due))

    def wrong(self, world: World) -> str:
        owner = world.owner
        if owner is not None and owner.dead_letters:
            return "a record became a dead letter"
        problem = "" if owner is None else owner.problem
        return problem or world.problem or disagreement(world.cluster.journal, world.outcomes)

    def wrong_at_rest(self, world: World) -> str:
        events = [outcome_of(value) for value in world.outcomes]
        for plan in self._plans:
            found = [event for event in events if event.tick == plan.tick]
            if len(found) != 1:
                return f"the plan of tick {plan.tick} has {len(found)} outcomes"
            changes = zip(plan.apps, plan.replicas, plan.replicas_before, strict=True)
            if found[0].apps != [app for app, after, before in changes if after != before]:
                return f"the outcome of tick {plan.tick} is about {found[0].apps}"
        closed = world.cluster.closed_tick
        # Free-running, the next plan closes what was rejected or never answered.
        if self.scenario.lock_step and closed != len(self._plans):
            return f"the target waits for tick {closed + 1}"
        return ""

    def seen(self, world: World) -> Iterator[str]:
        for event in map(outcome_of, world.outcomes):
            for outcome, reason in zip(event.outcomes, event.reasons, strict=True):
                yield f"{outcome}: {reason}"
        for entry in world.cluster.journal:
            yield f"journal: {entry.outcome}"

    # What happens without a fault.

    def _work(self, world: World) -> Iterator[tuple[str, World]]:
        owner = world.owner
        if owner is None:
            yield "a process starts", self._started(world)
        elif owner.point is not None:
            yield self._answered(world, owner)
        else:
            for name, after in self._turns(world, owner):
                yield f"it {name}", self._going_on(world, after)
        yield from self._learned(world)
        if world.zombie is not None:
            yield from self._zombie(world, world.zombie)
        for index, request in enumerate(world.late):
            rest = world.late[:index] + world.late[index + 1 :]
            cluster, _ = serve(world.cluster, request, self.scenario.target)
            arrived = world._replace(late=rest, cluster=cluster)
            yield f"a late {name_of_point(request)} arrives", arrived

    def _started(self, world: World) -> World:
        known = tuple((index, world.now) for index in range(world.published))
        turn = Turn(world.now, known, restored=world.saved)
        return self._going_on(world, begin(self._processes, Process(known, world.committed), turn))

    def _turns(self, world: World, process: Process) -> Iterator[tuple[str, Process]]:
        """What a process can do next."""
        if process.woken or process.is_due(world.now):
            turn = Turn(world.now, process.known)
            yield "is woken", begin(self._processes, process._replace(woken=False), turn)
        # What was learned wakes all states before the next record.
        for index in range(0 if process.woken else len(TOPICS)):
            delivery = self._next(world, process, index)
            if delivery is not None:
                name = f"takes {name_of_record(delivery)}"
                yield name, self._takes(world, process, index, delivery)

    def _next(self, world: World, process: Process, index: int) -> Delivery | None:
        """The next record of a topic, if it exists by now."""
        log, offset = self._log[index], process.read[index]
        if offset >= len(log):
            return None
        # In lock-step the cluster publishes a tick when the one before is closed.
        if self.scenario.lock_step and tick_of(log[offset]) > max(world.cluster.closed_tick, 0) + 1:
            return None
        return log[offset]

    def _takes(self, world: World, process: Process, index: int, delivery: Delivery) -> Process:
        read = list(process.read)
        read[index] = max(read[index], delivery.offset + 1)
        held = process.in_flight | {(delivery.topic, delivery.offset)}
        taking = process._replace(read=tuple(read), in_flight=held)
        return begin(self._processes, taking, Turn(world.now, process.known, delivery))

    def _answered(self, world: World, owner: Process) -> tuple[str, World]:
        point = owner.point
        if isinstance(point, Commit):
            return name_of_point(point), self._commit(world, owner, point)
        assert isinstance(point, Request)
        cluster, body = serve(world.cluster, point, self.scenario.target)
        after = resume(self._processes, owner, body, world.now)
        if point.method == "GET":
            return name_of_point(point), self._going_on(world, after)
        return name_of_point(point), world._replace(cluster=cluster, owner=after)

    def _going_on(self, world: World, owner: Process) -> World:
        """The owner after a step that changed nothing outside of it, and its commit with it.

        To crash or to be paused between the two is the same as before both. After a write to the
        target, or after an early acknowledgement, it is not.
        """
        turn, point = owner.turn, owner.point
        world = world._replace(owner=owner)
        if turn is None or not isinstance(point, Commit):
            return world
        delivery = turn.delivery
        if delivery is not None and (delivery.topic, delivery.offset) not in owner.in_flight:
            return world
        return self._commit(world, owner, point)

    def _commit(self, world: World, owner: Process, point: Commit) -> World:
        saved, believed, problem = dict(world.saved), dict(point.based_on), ""
        for key, data in point.states:
            assert data is not None
            if saved.get(key) != believed.get(key):
                problem = problem or "a state is overwritten by a process that did not know it"
            elif key in saved:
                problem = problem or older(self._saved(saved[key]), self._saved(data))
            saved[key] = data
        assert {topic for topic, _ in point.records} <= {topic_of(ScaleApplied).name}
        return world._replace(
            owner=resume(self._processes, owner, DONE, world.now),
            saved=tuple(sorted(saved.items())),
            outcomes=(*world.outcomes, *(value for _, value in point.records)),
            problem=problem,
        )

    def _learned(self, world: World) -> Iterator[tuple[str, World]]:
        """The next record of the reference topics is published, and reaches a living owner."""
        number, owner = world.published, world.owner
        if number >= len(self.scenario.reference):
            return
        name = f"{name_of_reference(self.scenario.reference[number])} is published"
        if owner is not None and isinstance(owner.known, tuple):
            owner = owner._replace(known=(*owner.known, (number, world.now)), woken=True)
            name += ", and learned"
        yield name, world._replace(published=number + 1, owner=owner)

    def _zombie(self, world: World, zombie: Process) -> Iterator[tuple[str, World]]:
        """Only where nothing is fenced: it goes on as if it still owned the domain."""
        if zombie.point is not None:
            name, after = self._answered(world._replace(owner=zombie), zombie)
            yield f"the zombie: {name}", after._replace(owner=world.owner, zombie=after.owner)
        else:
            for name, going_on in self._turns(world, zombie):
                yield f"the zombie {name}", world._replace(zombie=going_on)

    # Faults.

    def _faults(self, world: World) -> Iterator[tuple[str, World]]:
        owner = world.owner
        if owner is not None and world.faults[LOSS]:
            yield from self._losses(world, owner)
        if owner is not None and isinstance(owner.point, Request) and world.faults[NETWORK]:
            yield from self._network(world, owner, owner.point)
        if owner is not None and owner.point is None and world.faults[DUPLICATE]:
            for index, log in enumerate(self._log):
                for delivery in log[: owner.read[index]]:
                    again = self._going_on(world, self._takes(world, owner, index, delivery))
                    yield f"it takes {name_of_record(delivery)} again", again.spent(DUPLICATE)
        if world.faults[FOREIGN]:
            cluster = world.cluster.with_app(APPS[0], numbers(_FOREIGN))
            foreign = world._replace(cluster=cluster)
            yield f"somebody sets {APPS[0]} to {_FOREIGN}", foreign.spent(FOREIGN)
        if world.faults[GRACE]:
            yield "the grace period passes", world._replace(now=world.now + GRACE_S).spent(GRACE)
        if world.faults[MINUTE]:
            yield "a minute passes", world._replace(now=world.now + STALE_S + 1).spent(MINUTE)

    def _losses(self, world: World, owner: Process) -> Iterator[tuple[str, World]]:
        """The owner crashes, or is paused and does not know that another one takes over.

        A paused process is fenced at its next commit, so that all it can still do is to finish the
        write that it is at: a late request.
        """
        for name, committed in _offsets(world, owner):
            crashed = world._replace(owner=None, committed=committed).spent(LOSS)
            yield f"it crashes, {name}", crashed
            paused = f"it is paused, {name}"
            if not self.scenario.fences:
                if world.zombie is None and owner.memory is not None:
                    yield paused, crashed._replace(zombie=owner)
            elif (write := self._last_write(world, owner)) is not None:
                yield paused, crashed.delayed(write)
            elif owner.turn is None and (problem := self._unfenced(world, owner)):
                yield paused, crashed._replace(problem=problem)

    def _last_write(self, world: World, zombie: Process) -> Request | None:
        while isinstance(zombie.point, Request):
            if zombie.point.method != "GET":
                return zombie.point
            _, body = serve(world.cluster, zombie.point, self.scenario.target)
            zombie = resume(self._processes, zombie, body, world.now)
        return None

    def _unfenced(self, world: World, zombie: Process) -> str:
        """What a process that is paused between two turns does then without a commit."""
        writes = (self._last_write(world, after) for _, after in self._turns(world, zombie))
        for write in filter(None, writes):
            return f"a zombie sends {name_of_point(write)} without a commit"
        return ""

    def _network(
        self, world: World, owner: Process, request: Request
    ) -> Iterator[tuple[str, World]]:
        """A request or its answer is lost, or the request is rejected on its way."""
        name = name_of_point(request)
        fates = [("is lost", world)]
        if request.method != "GET":
            arrived, _ = serve(world.cluster, request, self.scenario.target)
            fates.append(("arrives and its answer is lost", world._replace(cluster=arrived)))
            fates.append(("is delayed", world.delayed(request)))
            after = resume(self._processes, owner, LOST, world.now)
            for fate, before in fates:
                yield f"{name} {fate}", before._replace(owner=after).spent(NETWORK)
        after = resume(self._processes, owner, GIVEN_UP, world.now)
        for fate, before in fates:
            given_up = before._replace(owner=after).spent(NETWORK)
            yield f"{name} {fate}, and the client gives up", given_up
        # What lets nothing pass does not keep a request for later either.
        if not world.late and not self.scenario.lock_step:
            after = resume(self._processes, owner, REJECTED, world.now)
            yield f"{name} is rejected on its way", world._replace(owner=after).spent(NETWORK)

    # Processes.

    def _saved(self, data: bytes) -> Saved:
        if data not in self._states:
            self._states[data] = saved_of(self._processes.handler(()).load(DOMAIN, data))
        return self._states[data]

    def _handler(self, known: Known) -> ActuatorHandler:
        assert isinstance(known, tuple)
        lock_step = self.scenario.lock_step
        grace, stale = (None, None) if lock_step else (GRACE_S, STALE_S)
        handler = self._handler_type(CLUSTER, Modes(), grace, stale)
        learned = [(self.scenario.reference[index], at) for index, at in known]
        handler.objection = lambda tick, now: forbidden(learned, tick, now, lock_step=lock_step)
        before = [(event, BEGIN) for event in (*map(declared, APPS), heartbeat(0))]
        for event, at in (*before, *learned):
            handler.learn_recorded(event, at, ManualClock(at))
        return handler


def _offsets(world: World, owner: Process) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Offsets are committed now and then: the last time may be long ago or just now."""
    yield "no offset committed since its start", world.committed
    now = owner.committable(TOPICS)
    if now != world.committed:
        yield "all offsets committed", now

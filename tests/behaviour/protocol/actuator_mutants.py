"""Actuators, engines, clients and targets with one mistake each, which the checker has to find."""

from dataclasses import replace
from typing import Any

import msgspec

from schemas.budget_granted import BudgetGranted
from schemas.fields import Event
from schemas.scale_planned import ScalePlanned
from services._kit.clock import Clock
from services._kit.engine import Engine
from services._kit.handler import Step
from services._kit.records import Received
from services._kit.steps import WRITTEN, Prepared
from services.actuator.decide import ActuatorHandler
from services.actuator.state import ActuatorState
from services.actuator.target import Answer, Reading, TargetRequest, Write, Written
from services.simcluster.target import Change, Closed, Entry, Numbers, Outcome, Present, Target
from tests.behaviour.protocol.target import Client


class WritesBeforeItCommits(Engine[ActuatorState]):
    async def _carry_out(self, key: str, prepared: Prepared[ActuatorState]) -> bool:
        assert self._executor is not None
        step = prepared.step
        results = [await self._executor.carry_out(write) for write in step.writes]
        without = prepared._replace(step=step._replace(writes=()))
        settled = await super()._carry_out(key, without)
        for result in results:
            settled = await self._next(key, result)
        return settled

    async def _next(self, key: str, result: Any) -> bool:
        state = self._store.get_or_start(key)
        step = await self._decide(
            key, WRITTEN, lambda: self.handler.written(result, state, self._clock)
        )
        return await self._carry_out(key, step)


class AcknowledgesBeforeItCommits(Engine[ActuatorState]):
    async def _handle(self, received: Received, key: str) -> bool:
        self._writer.acknowledge(received.deliveries)
        return await super()._handle(received, key)


class ForgetsItsWrite(ActuatorHandler):
    """Saves that a tick is closed, and not what was to be written."""

    def save(self, state: ActuatorState) -> bytes:
        return super().save(replace(state, pending=None))


class ForgetsItsClosedTicks(ActuatorHandler):
    """Takes a plan of a tick that it has closed."""

    def handle(self, event: Event, state: ActuatorState, clock: Clock) -> Step[ActuatorState]:
        if isinstance(event, ScalePlanned):
            state = replace(state, closed=min(state.closed, event.tick - 1))
        return super().handle(event, state, clock)


class AcknowledgesFramesInMemory(ActuatorHandler):
    def handle(self, event: Event, state: ActuatorState, clock: Clock) -> Step[ActuatorState]:
        return super().handle(event, state, clock)._replace(settled=True)


class RepeatsWithoutAsking(ActuatorHandler):
    """Requests an unanswered write again, whatever the breaker says by now."""

    def wake(self, state: ActuatorState, clock: Clock) -> Step[ActuatorState]:
        if state.pending is not None:
            return Step(state, writes=[state.pending.write])
        return super().wake(state, clock)


class ObeysOldEpochs(ActuatorHandler):
    def handle(self, event: Event, state: ActuatorState, clock: Clock) -> Step[ActuatorState]:
        if isinstance(event, BudgetGranted):
            return Step(replace(state.with_frames(state.frames), budgets=(event,)))
        return super().handle(event, state, clock)


class TakesSilenceForARefusal(Client):
    async def carry_out(self, request: TargetRequest) -> Reading | Written:
        result = await super().carry_out(request)
        if isinstance(result, Written):
            return msgspec.structs.replace(result, answered=True)
        return result


class TakesARejectionForTheLastWord(Client):
    """Does not look again for an earlier request that was late."""

    async def _write(self, write: Write) -> Written:
        self._before: dict[str, Answer] | None = None
        return await super()._write(write)

    async def _repeats(self, write: Write) -> dict[str, Answer]:
        if self._before is None:
            self._before = await super()._repeats(write)
        return self._before


class ForgetsDecisions(Client):
    """Does not read which decisions the target has."""

    async def _decisions(self, domain: str) -> dict[str, str]:
        await super()._decisions(domain)
        return {}


class ForgetfulTarget(Target):
    """Does not know a decision again."""

    def _outcome(self, change: Change, before: Numbers | None, *, superseded: bool) -> Outcome:
        self._stored.pop(change.app, None)
        return super()._outcome(change, before, superseded=superseded)


class TargetWithoutComparison(Target):
    """Sets numbers whatever they were."""

    def _outcome(self, change: Change, before: Numbers | None, *, superseded: bool) -> Outcome:
        anyhow = msgspec.structs.replace(change, before=None)
        return super()._outcome(anyhow, before, superseded=superseded)


class TargetThatReopensTicks(Target):
    """Takes what comes for a tick that is closed."""

    def _write_one(
        self,
        domain: str,
        tick: int,
        newest: Closed,
        change: Change,
        present: dict[str, Present],
        arrived_tick: int,
    ) -> Entry:
        opened = newest._replace(tick=-1)
        return super()._write_one(domain, tick, opened, change, present, arrived_tick)

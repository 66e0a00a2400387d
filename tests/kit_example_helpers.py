"""A small service for the kit's tests: joins samples with budgets per domain, and counts.

`python -m tests.kit_example_helpers` runs it on Kafka, as every service is run.
"""

import asyncio
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import msgspec

from schemas.app_declared import AppDeclared
from schemas.breaker_changed import BreakerChanged
from schemas.budget_granted import BudgetGranted
from schemas.fields import Event
from schemas.metrics_sampled import MetricsSampled
from services._kit import state_records
from services._kit.clock import Clock
from services._kit.errors import Refused
from services._kit.handler import Handler, Service, Step
from services._kit.main import run
from services._kit.settings import KitSettings
from services._kit.state_codec import Transient
from services._kit.state_records import MOST_PARTS

TIME = "2026-01-05T00:00:00Z"
LARGEST_RECORD_BYTES = 20_000
"""Small, so that tests of large states are fast."""
BALLAST = {
    "large": Random(0).randbytes(4 * LARGEST_RECORD_BYTES),
    "light": b"",
    "oversized": Random(0).randbytes((MOST_PARTS + 1) * LARGEST_RECORD_BYTES),
}
"""By source of a sample. Random, so that compression doesn't help."""


@dataclass(frozen=True)
class ExampleState:
    """Of one domain."""

    domain: str
    closed: int = -1
    count: int = 0
    budget: int = -1
    waiting: Transient[tuple[int, ...]] = ()
    """Ticks of samples that have no budget yet, in order."""
    since: Transient[float] = 0.0
    ballast: bytes = b""


class ExampleSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of the example."""

    prefix: str = ""
    """Only domains with this prefix are handled, so that tests can share topics."""
    journal: str = ""
    """File to which writes are appended."""
    wait_seconds: float = 1.0
    """How long to wait for a budget."""
    slow_seconds: float = 0.0
    """How long a write takes."""


class Journal:
    """Writes lines to a file."""

    def __init__(self, path: str, slow_seconds: float = 0.0) -> None:
        self._path = Path(path)
        self._slow_seconds = slow_seconds

    async def carry_out(self, write: Any) -> Any:
        if self._slow_seconds:
            await asyncio.sleep(self._slow_seconds)
        with self._path.open("a") as out:
            out.write(f"{write}\n")
        return f"did {write}"


class Example(Handler[ExampleState]):
    """Closes a tick of a domain when it has samples and a budget for it."""

    name = os.environ.get("EXAMPLE_NAME", "example")
    inputs: ClassVar[tuple[type[Event], ...]] = (MetricsSampled, BudgetGranted)
    reference = (AppDeclared,)
    scope = "cluster" if os.environ.get("EXAMPLE_SCOPE") == "cluster" else "domain"

    def __init__(self, settings: ExampleSettings) -> None:
        self._settings = settings
        self._apps: dict[str, str] = {}

    def learn(self, event: Event, clock: Clock) -> None:
        del clock
        assert isinstance(event, AppDeclared)
        self._apps[event.app] = event.domain

    def forget(self, kind: type[Event], key: str, clock: Clock) -> None:
        del clock
        assert kind is AppDeclared
        self._apps.pop(key, None)

    def start(self, key: str) -> ExampleState:
        return ExampleState(domain=key)

    def handle(self, event: Event, state: ExampleState, clock: Clock) -> Step[ExampleState]:
        if not state.domain.startswith(self._settings.prefix):
            return Step(state)
        if isinstance(event, BudgetGranted):
            budget = max(state.budget, event.tick)
            return self._close(replace(state, budget=budget), state)
        assert isinstance(event, MetricsSampled)
        # The source of a sample selects what goes wrong, or what is done with it.
        if event.source == "bad":
            raise Refused("nonsense", "expected sense")
        if event.source == "poison":
            raise ZeroDivisionError("poison")
        if event.source in BALLAST:
            state = replace(state, ballast=BALLAST[event.source])
            return Step(state, [self._answer(state, reason=event.source)])
        if event.source == "write":
            return Step(state, writes=[f"{event.domain} {event.tick}"])
        # A duplicate. Waiting samples aren't saved, so don't let a step acknowledge them.
        if event.tick <= state.closed or event.tick in state.waiting:
            return Step(state, settled=not state.waiting)
        ticks = tuple(sorted((*state.waiting, event.tick)))
        return self._close(replace(state, waiting=ticks, since=clock.now()), state)

    def written(self, result: Any, state: ExampleState, clock: Clock) -> Step[ExampleState]:
        del clock
        return Step(state, [self._answer(state, reason=str(result))])

    def due(self, state: ExampleState) -> float | None:
        return state.since + self._settings.wait_seconds if state.waiting else None

    def wake(self, state: ExampleState, clock: Clock) -> Step[ExampleState]:
        due = self.due(state)
        if due is None or clock.now() < due:
            return Step(state, settled=not state.waiting)
        late = replace(state, closed=state.waiting[-1], waiting=())
        return Step(late, [self._answer(late, reason="late")])

    def _close(self, state: ExampleState, before: ExampleState) -> Step[ExampleState]:
        if state == before:
            return Step(before, settled=not before.waiting)
        answers = []
        while state.waiting and state.waiting[0] <= state.budget:
            state = replace(
                state, closed=state.waiting[0], count=state.count + 1, waiting=state.waiting[1:]
            )
            answers.append(self._answer(state, reason="joined"))
        return Step(state, answers, settled=not state.waiting)

    def _answer(self, state: ExampleState, reason: str) -> BreakerChanged:
        apps = sum(domain == state.domain for domain in self._apps.values())
        return BreakerChanged(
            scope=state.domain,
            tick=max(state.closed, 0),
            time=TIME,
            state="closed",
            since_tick=state.count,
            reason=reason,
            readings={"apps": apps, **({"ballast": len(state.ballast)} if state.ballast else {})},
        )


def sampled(domain: str, tick: int, source: str = "") -> MetricsSampled:
    return MetricsSampled(domain=domain, tick=tick, time=TIME, source=source, apps=[])


def granted(domain: str, tick: int) -> BudgetGranted:
    return BudgetGranted(
        domain=domain,
        tick=tick,
        time=TIME,
        epoch=tick,
        valid_until_tick=tick + 6,
        share=0.5,
        reserve_share=0.5,
        cores=1.0,
        memory_gib=1.0,
    )


def declared(app: str, domain: str) -> AppDeclared:
    return AppDeclared(app=app, domain=domain, ordinal=0)


def build(kit: KitSettings, own: ExampleSettings) -> Service[ExampleState]:
    del kit
    return Service(Example(own), Journal(own.journal, own.slow_seconds))


if __name__ == "__main__":
    setattr(state_records, "LARGEST_RECORD_BYTES", LARGEST_RECORD_BYTES)  # noqa: B010  it is final
    sys.exit(run("example", build, ExampleSettings))

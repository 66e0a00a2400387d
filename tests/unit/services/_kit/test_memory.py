from pathlib import Path
from random import Random

import pytest

from schemas.app_declared import AppDeclared
from schemas.breaker_changed import BreakerChanged
from schemas.budget_granted import BudgetGranted
from schemas.fields import Event
from schemas.metrics_sampled import MetricsSampled
from schemas.topics import topic_of
from services._kit.clock import Clock, ManualClock
from services._kit.errors import Refused
from services._kit.handler import Handler, Service, Step
from services._kit.memory import Killed, MemoryBus, Moment
from services._kit.telemetry import Telemetry
from tests.kit_example_helpers import (
    Example,
    ExampleSettings,
    ExampleState,
    Journal,
    declared,
    granted,
    sampled,
)


def example(journal: Path | None = None) -> Service[ExampleState]:
    executor = Journal(str(journal)) if journal else None
    return Service(Example(ExampleSettings()), executor)


def counts(bus: MemoryBus) -> list[int]:
    return [answer.since_tick for answer in bus.events(BreakerChanged)]


def feed(bus: MemoryBus, *ticks: int) -> None:
    for tick in ticks:
        bus.publish(granted("a", tick), sampled("a", tick))


def test_every_record_delivered_twice_changes_nothing() -> None:
    once, twice = MemoryBus(), MemoryBus(duplicate=lambda _: True)
    for bus in (once, twice):
        bus.add(example)
        feed(bus, 1, 2, 3)
        bus.run()
    assert twice.events(BreakerChanged) == once.events(BreakerChanged)
    assert twice.state("example", "a") == once.state("example", "a")


@pytest.mark.parametrize("moment", ["publish", "save", "acknowledge"])
def test_a_crash_at_any_moment_loses_and_repeats_nothing(moment: Moment) -> None:
    bus = MemoryBus()
    bus.add(example)
    feed(bus, 1)
    bus.publish(granted("a", 2))
    bus.run()
    bus.fail_next("example", moment)
    bus.publish(sampled("a", 2))
    with pytest.raises(Killed):
        bus.run()
    bus.start("example")
    bus.run()
    # An answer and the state that knows of it are committed together.
    assert counts(bus) == [1, 2]


def test_records_delivered_again_after_a_kill_find_their_tick_closed() -> None:
    bus = MemoryBus()
    bus.add(example)
    feed(bus, 1, 2)
    bus.run()
    bus.kill("example", redeliver=4)
    bus.start("example")
    bus.run()
    assert counts(bus) == [1, 2]


def test_a_dead_service_gets_nothing_and_does_not_block_the_bus() -> None:
    bus = MemoryBus()
    bus.add(example)
    bus.kill("example")
    feed(bus, 1)
    bus.run()
    assert counts(bus) == []


def test_a_tombstone_makes_a_handler_forget() -> None:
    bus = MemoryBus()
    bus.publish(declared("app", "a"))
    bus.put(topic_of(AppDeclared).name, b"app", None)
    bus.add(example)
    feed(bus, 1)
    bus.run()
    assert bus.events(BreakerChanged)[0].readings == {"apps": 0}


def test_compacted_topics_keep_the_newest_of_each_key() -> None:
    bus = MemoryBus()
    bus.publish(declared("x", "a"), declared("y", "a"), declared("x", "b"))
    bus.compact()
    assert [(event.app, event.domain) for event in bus.events(AppDeclared)] == [
        ("y", "a"),
        ("x", "b"),
    ]


def test_records_read_by_all_services_are_trimmed_except_the_newest() -> None:
    bus = MemoryBus(keep=2)
    bus.add(example)
    feed(bus, *range(10))
    bus.run()
    assert [event.tick for event in bus.events(MetricsSampled)] == [8, 9]
    feed(bus, 10)
    bus.run()
    assert bus.newest(BreakerChanged)["a"].since_tick == 11


def test_time_passes_from_one_due_moment_to_the_next() -> None:
    bus = MemoryBus(ManualClock(100.0))
    bus.add(example)
    bus.publish(sampled("a", 1))
    bus.run()
    assert bus.next_due() == 101.0
    bus.advance(0.9)
    assert bus.events(BreakerChanged) == []
    bus.advance(5.0)
    assert [answer.reason for answer in bus.events(BreakerChanged)] == ["late"]
    assert bus.clock.now() == pytest.approx(105.9)


def test_new_reference_data_wakes_every_state() -> None:
    woken: list[str] = []

    class Watched(Example):
        def wake(self, state: ExampleState, clock: Clock) -> Step[ExampleState]:
            woken.append(state.domain)
            return super().wake(state, clock)

    bus = MemoryBus()
    bus.add(lambda: Service(Watched(ExampleSettings())))
    bus.publish(sampled("waits", 1), granted("has", 1), sampled("has", 1))
    bus.run()
    bus.publish(declared("x", "a"))
    bus.run()
    assert woken == ["has", "waits"]


def test_services_that_answer_each_other_in_a_loop_are_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Echo(Example):
        inputs = (BreakerChanged,)

        def handle(self, event: Event, state: ExampleState, clock: Clock) -> Step[ExampleState]:
            del clock
            return Step(state, [event])

    monkeypatch.setattr("services._kit.memory.MOST_ROUNDS", 100)
    bus = MemoryBus()
    bus.add(lambda: Service(Echo(ExampleSettings())))
    bus.publish(Example(ExampleSettings())._answer(ExampleState(domain="a"), "hello"))
    with pytest.raises(RuntimeError, match="in a loop"):
        bus.run()


def test_metrics_count_each_record_by_its_outcome() -> None:
    bus = MemoryBus()
    bus.add(example)
    bus.publish(sampled("a", 1, source="bad"))
    feed(bus, 1)
    bus.run()
    registry = bus.telemetry("example").registry
    labels = {"topic": topic_of(MetricsSampled).name}
    assert registry.get_sample_value("hirl_events_total", labels | {"outcome": "handled"}) == 1
    assert registry.get_sample_value("hirl_events_total", labels | {"outcome": "rejected"}) == 1
    assert registry.get_sample_value("hirl_dead_letters_total", labels | {"error": "nonsense"}) == 1
    saved = registry.get_sample_value("hirl_state_bytes", {"key": "a"})
    state = bus.state("example", "a")
    assert state is not None
    assert saved == len(state)


def test_writes_without_an_executor_raise_an_error() -> None:
    bus = MemoryBus()
    bus.add(example)
    bus.publish(sampled("a", 1, source="write"))
    with pytest.raises(TypeError, match="no executor"):
        bus.run()


def test_a_write_is_carried_out_again_when_its_input_was_not_acknowledged(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    bus = MemoryBus()
    bus.add(lambda: example(journal))
    bus.fail_next("example", "publish")
    bus.publish(sampled("a", 1, source="write"))
    with pytest.raises(Killed):
        bus.run()
    bus.start("example")
    bus.run()
    # At least once: targets know a write by its id.
    assert journal.read_text().splitlines() == ["a 1", "a 1"]


def test_nothing_is_written_to_a_target_before_the_step_is_committed(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    bus = MemoryBus()
    bus.add(lambda: example(journal))
    # The state does not change, yet the commit has to prove that the key is still ours.
    bus.fail_next("example", "save")
    bus.publish(sampled("a", 1, source="write"))
    with pytest.raises(Killed):
        bus.run()
    assert not journal.exists()
    bus.start("example")
    bus.run()
    assert journal.read_text().splitlines() == ["a 1"]


class Asker(Example):
    """Asks the executor before it answers a sample."""

    def handle(self, event: Event, state: ExampleState, clock: Clock) -> Step[ExampleState]:
        step = super().handle(event, state, clock)
        return step._replace(read="question") if isinstance(event, MetricsSampled) else step


def test_nothing_is_saved_before_the_result_of_a_read(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    bus = MemoryBus()
    bus.add(lambda: Service(Asker(ExampleSettings()), Journal(str(journal))))
    bus.publish(granted("a", 1))
    bus.run()
    before = bus.state("example", "a")
    bus.fail_next("example", "publish")
    bus.publish(sampled("a", 1))
    with pytest.raises(Killed):
        bus.run()
    assert (journal.read_text(), bus.state("example", "a")) == ("question\n", before)
    bus.start("example")
    bus.run()
    # Asked again, and committed once: the events of both steps with the state of the last.
    assert journal.read_text() == 2 * "question\n"
    assert [answer.reason for answer in bus.events(BreakerChanged)] == ["joined", "did question"]


def test_the_commit_before_a_write_acknowledges_nothing_that_waits_in_memory(
    tmp_path: Path,
) -> None:
    bus = MemoryBus()
    bus.add(lambda: example(tmp_path / "journal"))
    bus.publish(sampled("a", 1), sampled("a", 7, source="write"))
    bus.run()
    bus.kill("example")
    bus.start("example")
    bus.publish(granted("a", 1))
    bus.run()
    assert counts(bus)[-1] == 1


def test_a_state_of_the_cluster_exists_from_the_start_and_can_be_woken() -> None:
    class Clockwork(Handler[int]):
        name = "clockwork"
        scope = "cluster"

        def start(self, key: str) -> int:
            assert key == "cluster"
            return 0

        def handle(self, event: Event, state: int, clock: Clock) -> Step[int]:
            raise NotImplementedError

        def due(self, state: int) -> float:
            return 10.0 * (state + 1)

        def wake(self, state: int, clock: Clock) -> Step[int]:
            return Step(state + 1) if clock.now() >= self.due(state) else Step(state)

        def save(self, state: int) -> bytes:
            return b"%d" % state

        def load(self, key: str, data: bytes) -> int:
            del key
            return int(data)

    bus = MemoryBus()
    bus.add(lambda: Service(Clockwork()))
    bus.advance(35.0)
    assert bus.state("clockwork", "cluster") == b"3"
    bus.kill("clockwork")
    bus.start("clockwork")
    bus.advance(10.0)
    assert bus.state("clockwork", "cluster") == b"4"


def test_a_service_counts_what_it_publishes_in_metrics_of_its_own() -> None:
    class Holds:
        def __init__(self, telemetry: Telemetry) -> None:
            self._holds = telemetry.holds

        def __call__(self, event: Event) -> None:
            assert isinstance(event, BreakerChanged)
            self._holds.labels(event.reason).inc()

    bus = MemoryBus()
    bus.add(lambda: Service(Example(ExampleSettings()), observe=Holds))
    feed(bus, 1, 2)
    bus.run()
    registry = bus.telemetry("example").registry
    assert registry.get_sample_value("hirl_holds_total", {"reason": "joined"}) == 2


def test_an_event_that_changes_nothing_settles_nothing_that_waits() -> None:
    bus = MemoryBus()
    bus.add(example)
    feed(bus, 1)
    bus.publish(sampled("a", 2), sampled("a", 1))
    bus.run()
    bus.publish(declared("x", "a"))
    bus.run()
    bus.kill("example")
    bus.start("example")
    bus.publish(granted("a", 2))
    bus.run()
    assert counts(bus) == [1, 2]


def test_a_state_of_an_older_form_starts_over() -> None:
    class Forgetful(Example):
        def load(self, key: str, data: bytes) -> ExampleState:
            raise Refused("form", f"state of {key} is {len(data)} bytes of an older form")

    bus = MemoryBus()
    bus.add(lambda: Service(Forgetful(ExampleSettings())))
    feed(bus, 1)
    bus.run()
    bus.kill("example")
    bus.start("example")
    feed(bus, 2)
    bus.run()
    assert counts(bus) == [1, 1]


def test_refused_reference_data_is_dead_lettered() -> None:
    class Picky(Example):
        def learn(self, event: Event, clock: Clock) -> None:
            del clock
            raise Refused("app", f"{event} is not of ours")

    bus = MemoryBus()
    bus.add(lambda: Service(Picky(ExampleSettings())))
    bus.publish(declared("x", "a"))
    feed(bus, 1)
    bus.run()
    assert [letter.error for letter in bus.dead_letters] == ["app"]
    assert counts(bus) == [1]


def test_topics_can_overtake_each_other_and_keep_their_own_order() -> None:
    taken: list[tuple[str, int]] = []

    class Watched(Example):
        def handle(self, event: Event, state: ExampleState, clock: Clock) -> Step[ExampleState]:
            assert isinstance(event, MetricsSampled | BudgetGranted)
            taken.append((type(event).__name__, event.tick))
            return super().handle(event, state, clock)

    bus = MemoryBus(order=Random(1).choice)
    bus.add(lambda: Service(Watched(ExampleSettings())))
    feed(bus, *range(20))
    bus.run()
    for name in ("MetricsSampled", "BudgetGranted"):
        assert [tick for kind, tick in taken if kind == name] == list(range(20))
    assert [tick for _, tick in taken] != sorted(tick for _, tick in taken)
    assert counts(bus)[-1] == 20


def test_inputs_that_wait_to_be_acknowledged_keep_no_values() -> None:
    bus = MemoryBus()
    bus.add(example)
    bus.publish(*(sampled("a", tick) for tick in range(3)))
    bus.run()
    engine = bus._processes["example"].engine
    assert engine is not None
    assert [delivery.value for delivery in engine._store._unsettled["a"]] == [None] * 3
    bus.publish(granted("a", 9))
    bus.run()
    assert bus._processes["example"].committed[topic_of(MetricsSampled).name] == 3

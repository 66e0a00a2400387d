"""The promises of every adapter: one suite, which runs on each of them.

A test module subclasses `Conformance` and provides the fixture `bus`.
"""

from typing import Protocol

from schemas.breaker_changed import BreakerChanged
from schemas.fields import Event
from schemas.metrics_sampled import MetricsSampled
from schemas.rejected import Rejected
from schemas.state_reset import StateReset
from schemas.topics import topic_of
from tests.kit_example_helpers import BALLAST, declared, granted, sampled


class Bus(Protocol):
    """An adapter that runs the example service. Domains of a test begin with `prefix`."""

    prefix: str
    name: str

    def start(self, *, patient: bool = True) -> None:
        """Start the service; a patient one is not woken early on a busy machine."""

    def kill(self) -> None:
        """End it as SIGKILL does."""

    def terminate(self) -> int:
        """End it as SIGTERM does; the exit status."""

    def revive(self) -> None:
        """Start it again after it ended by itself."""

    def publish(self, *events: Event) -> None:
        """Write events."""

    def put(self, topic: str, key: bytes, value: bytes) -> None:
        """Write a raw record."""

    def answers(self, count: int) -> list[BreakerChanged]:
        """Events of the example, once there are `count` and no more arrive."""

    def dead_letters(self, count: int) -> list[Rejected]:
        """Records that it rejected, once there are `count`."""

    def failed(self) -> None:
        """Wait until it has ended by itself with a failure."""

    def writes(self, count: int) -> list[str]:
        """Writes that its executor carried out, once there are `count`."""


class Conformance:
    """Promises, in the order of a service's life."""

    def test_reference_data_is_read_before_the_first_event(self, bus: Bus) -> None:
        domain = f"{bus.prefix}a"
        bus.publish(sampled(domain, 1), granted(domain, 1))
        bus.publish(declared(f"{domain}-1", domain), declared(f"{domain}-2", domain))
        bus.start()
        assert [answer.readings for answer in bus.answers(1)] == [{"apps": 2}]

    def test_events_of_a_key_are_handled_in_order(self, bus: Bus) -> None:
        bus.start()
        domains = [f"{bus.prefix}{name}" for name in "abc"]
        for tick in range(20):
            bus.publish(*(granted(domain, tick) for domain in domains))
        for tick in range(20):
            bus.publish(*(sampled(domain, tick) for domain in domains))
        answers = bus.answers(60)
        for domain in domains:
            ticks = [answer.tick for answer in answers if answer.scope == domain]
            counts = [answer.since_tick for answer in answers if answer.scope == domain]
            assert ticks == sorted(ticks)
            assert ticks[-1] == 19
            assert counts == list(range(1, len(counts) + 1))

    def test_duplicates_change_nothing(self, bus: Bus) -> None:
        domain = f"{bus.prefix}a"
        bus.start()
        for tick in (1, 1, 2, 2, 1):
            bus.publish(granted(domain, tick), sampled(domain, tick), sampled(domain, tick))
        assert [answer.since_tick for answer in bus.answers(2)] == [1, 2]

    def test_state_survives_a_kill(self, bus: Bus) -> None:
        domain = f"{bus.prefix}a"
        bus.start()
        bus.publish(granted(domain, 1), sampled(domain, 1))
        bus.answers(1)
        bus.kill()
        bus.publish(granted(domain, 2), sampled(domain, 2))
        bus.start()
        counts = [answer.since_tick for answer in bus.answers(2)]
        # The first tick may be answered again: its offset may not have been committed.
        assert counts[-1] == 2
        assert sorted(set(counts)) == [1, 2]

    def test_an_operators_order_starts_a_key_over_once(self, bus: Bus) -> None:
        domain = f"{bus.prefix}a"
        bus.start()
        bus.publish(granted(domain, 1), sampled(domain, 1))
        bus.answers(1)
        bus.publish(
            StateReset(
                state=f"{bus.name}/{domain}",
                id="once",
                reason="a test",
                issued_by="alice",
                issued_at="2026-11-18T00:00:00Z",
            )
        )
        assert [letter.error for letter in bus.dead_letters(1)] == ["reset"]
        bus.publish(granted(domain, 2), sampled(domain, 2))
        assert bus.answers(2)[-1].since_tick == 1
        bus.kill()
        bus.start()
        bus.publish(granted(domain, 3), sampled(domain, 3))
        assert bus.answers(3)[-1].since_tick == 2
        assert len(bus.dead_letters(1)) == 1

    def test_an_event_that_waits_unsaved_is_delivered_again_after_a_kill(self, bus: Bus) -> None:
        domain = f"{bus.prefix}a"
        bus.start()
        bus.publish(granted(domain, 1), sampled(domain, 1))
        bus.answers(1)
        bus.publish(sampled(domain, 2))
        bus.kill()
        bus.publish(granted(domain, 2))
        bus.start()
        assert bus.answers(2)[-1].since_tick == 2

    def test_an_undecodable_record_is_dead_lettered_and_the_next_is_handled(self, bus: Bus) -> None:
        domain = f"{bus.prefix}a"
        topic = topic_of(MetricsSampled).name
        bus.start()
        bus.put(topic, domain.encode(), b"{not json")
        bus.publish(sampled(domain, 1, source="bad"))
        bus.publish(granted(domain, 1), sampled(domain, 1))
        assert [answer.tick for answer in bus.answers(1)] == [1]
        # An undecodable record has no key to keep in order, so letters may overtake each other.
        malformed, refused = sorted(bus.dead_letters(2), key=lambda letter: letter.error)
        assert (malformed.topic, malformed.key, refused.error) == (topic, domain, "nonsense")
        assert malformed.value_base64 == "e25vdCBqc29u"
        assert refused.detail == "expected sense"

    def test_poison_stops_the_service_twice_and_is_dead_lettered_the_third_time(
        self, bus: Bus
    ) -> None:
        domain = f"{bus.prefix}a"
        bus.publish(sampled(domain, 1, source="poison"), granted(domain, 2), sampled(domain, 2))
        bus.start()
        bus.failed()
        bus.revive()
        bus.failed()
        bus.revive()
        assert [answer.tick for answer in bus.answers(1)] == [2]
        assert [letter.error for letter in bus.dead_letters(1)] == ["poison"]

    def test_a_state_larger_than_a_record_survives_restarts_and_shrinks_again(
        self, bus: Bus
    ) -> None:
        domain = f"{bus.prefix}a"
        bus.publish(sampled(domain, 0, source="large"))
        bus.start()
        assert [one.reason for one in bus.answers(1)] == ["large"]
        bus.kill()
        bus.start()
        bus.publish(sampled(domain, 0, source="write"))
        found = {one.reason: one.readings for one in bus.answers(2)}
        assert found[f"did {domain} 0"] == {"apps": 0, "ballast": len(BALLAST["large"])}
        bus.publish(sampled(domain, 0, source="light"))
        assert [one.reason for one in bus.answers(3)][-1] == "light"
        bus.kill()
        bus.start()
        bus.publish(granted(domain, 1), sampled(domain, 1))
        assert [(one.reason, one.readings) for one in bus.answers(4)][-1] == ("joined", {"apps": 0})

    def test_a_state_too_large_for_the_broker_is_dropped_the_third_time_without_any_output(
        self, bus: Bus
    ) -> None:
        domain = f"{bus.prefix}a"
        bus.publish(*(sampled(domain, tick, source="oversized") for tick in (1, 2)))
        bus.start()
        bus.failed()
        bus.revive()
        bus.failed()
        bus.revive()
        letters = bus.dead_letters(4)
        assert [letter.error for letter in letters] == ["poison"] * 4
        records = [letter.topic for letter in letters if letter.offset >= 0]
        assert records == [topic_of(MetricsSampled).name] * 2
        bus.publish(granted(domain, 3), sampled(domain, 3))
        assert [(one.tick, one.reason) for one in bus.answers(1)] == [(3, "joined")]

    def test_a_waiting_domain_is_woken_when_it_is_due(self, bus: Bus) -> None:
        domain = f"{bus.prefix}a"
        bus.start(patient=False)
        bus.publish(sampled(domain, 1))
        assert [answer.reason for answer in bus.answers(1)] == ["late"]

    def test_writes_are_carried_out_and_their_results_handled(self, bus: Bus) -> None:
        domain = f"{bus.prefix}a"
        bus.start()
        bus.publish(sampled(domain, 7, source="write"))
        assert bus.writes(1) == [f"{domain} 7"]
        assert [answer.reason for answer in bus.answers(1)] == [f"did {domain} 7"]

    def test_sigterm_finishes_events_in_flight(self, bus: Bus) -> None:
        domain = f"{bus.prefix}a"
        bus.start()
        bus.publish(granted(domain, 1), sampled(domain, 1))
        bus.answers(1)
        bus.publish(sampled(domain, 7, source="write"))
        bus.writes(0)
        assert bus.terminate() == 0
        bus.start()
        # Its offsets were committed before it ended, so nothing is done twice.
        bus.publish(granted(domain, 2), sampled(domain, 2))
        assert [answer.reason for answer in bus.answers(3)] == [
            "joined",
            f"did {domain} 7",
            "joined",
        ]
        assert len(bus.writes(1)) == 1

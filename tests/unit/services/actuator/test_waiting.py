"""A plan waits for what belongs to it, over restarts too."""

import zlib

import msgspec
import numpy as np

from models.control.tuned import tuned_parameters
from schemas.domain_observed import DomainObserved, Pods
from schemas.scale_applied import ScaleApplied
from schemas.topics import topic_of
from services._kit.clock import ManualClock
from services._kit.handler import Service
from services._kit.memory import MemoryBus
from services._kit.state_codec import encode, parts_of
from services._kit.state_records import LARGEST_RECORD_BYTES
from services.actuator.decide import ActuatorHandler
from services.actuator.settings import Modes
from services.aggregator.decide import AggregatorHandler
from tests.service_helpers import (
    APPS,
    CLUSTER,
    DOMAIN,
    granted,
    heartbeat,
    inventory,
    pools,
    sampled,
    time_of,
)
from tests.unit.services.actuator.actuator_helpers import GRACE_S, STALE_S, Alone


def test_a_plan_that_waits_is_superseded_by_the_next() -> None:
    alone = Alone()
    first, second = alone.plans[1], alone.plans[2]
    assert first.changes > 0
    assert alone.take(alone.frames[3], first) == []
    step = alone.handler.handle(second, alone.state, alone.clock)
    (gone,) = step.events
    assert isinstance(gone, ScaleApplied)
    assert gone.decision_id == first.decision_id
    assert gone.apps == list(APPS)
    assert set(gone.outcomes) == {"superseded"}


def test_plans_that_are_a_tick_behind_the_frames_are_applied() -> None:
    alone = Alone()
    alone.take(granted(0), alone.frames[1])
    for tick in (1, 2):
        (write,) = alone.take(alone.frames[tick + 1], alone.plans[tick])
        assert write.tick == tick
        assert [change.app for change in write.changes] == list(APPS)
    assert list(alone.state.frames) == [3]


def test_a_plan_whose_frame_never_comes_is_held_when_the_grace_period_is_over() -> None:
    alone = Alone(GRACE_S)
    assert alone.take(granted(0), alone.frames[2], alone.plans[1]) == []
    alone.clock.advance(GRACE_S)
    (write,) = alone.wake()
    assert (write.tick, write.changes) == (1, [])


def test_a_frame_that_arrives_while_its_plan_waits_survives_a_restart() -> None:
    alone = Alone()
    alone.take(alone.plans[1])
    before = alone.state
    alone.take(alone.frames[1])
    assert alone.state is not before
    alone.restart()
    (write,) = alone.take(granted(0))
    assert [change.app for change in write.changes] == list(APPS)


def test_frames_that_are_ahead_survive_a_restart() -> None:
    alone = Alone()
    alone.take(granted(0), alone.frames[1], alone.frames[2], alone.plans[1])
    alone.restart()
    (write,) = alone.take(alone.plans[2])
    assert [change.app for change in write.changes] == list(APPS)


def test_a_plan_that_waited_before_a_restart_still_waits_for_its_frame() -> None:
    alone = Alone(GRACE_S)
    alone.take(granted(0), alone.frames[1], alone.plans[1])
    alone.take(alone.plans[2])
    alone.restart()
    assert alone.handler.due(alone.state) == 0.0
    assert alone.wake() == []
    assert alone.handler.due(alone.state) == alone.clock.now() + GRACE_S
    (write,) = alone.take(alone.frames[2])
    assert [change.app for change in write.changes] == list(APPS)


def test_frames_without_plans_are_acknowledged_too() -> None:
    bus, count = MemoryBus(ManualClock(1000.0)), 50
    bus.add(lambda: Service(AggregatorHandler(CLUSTER, tuned_parameters(), GRACE_S)))
    bus.add(lambda: Service(ActuatorHandler(CLUSTER, Modes(), GRACE_S, STALE_S)))
    bus.publish(*inventory(), *pools(0), heartbeat(0), *(sampled(tick) for tick in range(count)))
    bus.run()
    assert len(bus.events(DomainObserved)) == count
    assert bus._processes["actuator"].committed[topic_of(DomainObserved).name] > count - 8


def test_the_waiting_frames_of_a_large_domain_fit_into_a_record() -> None:
    rng, count = np.random.default_rng(0), 4000
    zeros = [0] * count

    def noise() -> list[float]:
        return [float(value) for value in rng.random(count, np.float32)]

    handler, clock = ActuatorHandler(CLUSTER, Modes(), None, None), ManualClock()
    state, frame = handler.start(DOMAIN), Alone().frames[1]
    for tick in range(1, 7):
        large = msgspec.structs.replace(
            frame,
            tick=tick,
            time=time_of(tick),
            apps=[f"payments-{number:06d}" for number in range(count)],
            pods=Pods(**dict.fromkeys(Pods.__struct_fields__, zeros)),
            measured={name: noise() for name in frame.measured},
            features={name: noise() for name in frame.features},
            load_pods=noise(),
            usual_load_pods=noise(),
        )
        state = handler.handle(large, state, clock).state
    assert len(zlib.compress(msgspec.msgpack.encode([large] * 6), level=1)) > LARGEST_RECORD_BYTES
    assert len(state.frames) == 6
    saved = handler.save(state.with_frames(state.frames))
    assert len(zlib.compress(saved, level=1)) < LARGEST_RECORD_BYTES


def test_a_write_that_an_earlier_release_saved_beside_its_event_is_requested_again() -> None:
    alone = Alone()
    alone.take(granted(0), alone.frames[1])
    reading = alone.handler.handle(alone.plans[1], alone.state, alone.clock)
    asked = alone.handler.written(alone.read(reading.read), reading.state, alone.clock)
    (write,) = asked.writes
    assert len(write.changes) == len(APPS)
    saved = parts_of(alone.handler.save(asked.state))
    saved["pending"]["write"] = msgspec.to_builtins(write)
    alone.state = alone.handler.load(DOMAIN, encode(saved))
    assert alone.wake() == [write]

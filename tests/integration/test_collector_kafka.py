"""The collector and the provisioner on a real broker."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import pytest
from aiohttp.test_utils import TestServer
from kafka.admin import NewTopic
from kafka.errors import TopicAlreadyExistsError

from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import Scenario
from models.sim.world import World
from schemas.app_declared import AppDeclared
from schemas.budget_granted import BudgetGranted
from schemas.capacity_requested import CapacityRequested, NodesByUrgency
from schemas.codec import Record, decode, encode
from schemas.demand_backfilled import DemandBackfilled
from schemas.event_scheduled import EventScheduled
from schemas.fields import Event
from schemas.metrics_sampled import MetricsSampled
from schemas.pool_observed import PoolObserved
from schemas.scale_applied import ScaleApplied
from schemas.topics import state_topic, topic_of
from services._kit.kafka import KafkaWriter, Reader
from services._kit.settings import KitSettings
from services.admin import client
from services.collector import domain_news
from services.collector.app import collect, declared_apps, last_tick
from services.collector.producer import TickProducer
from services.collector.settings import Settings
from services.devcluster.connect import Running
from services.simcluster import events
from services.simcluster.cluster import SimulatedCluster
from services.simcluster.feed import KafkaFeed
from services.simcluster.http import Api
from services.simcluster.live import LiveCluster, lock_step

TICKS = 12
STAMP = "2026-11-19T00:01:00Z"
TOPIC = topic_of(AppDeclared).name
CLUSTER = with_apps(load_sim_cluster(), 20)


@pytest.fixture
def kit(kafka: Running) -> KitSettings:
    admin = client.admin(kafka.options())
    try:
        name = state_topic("collector")
        config = {"cleanup.policy": "compact"}
        admin.create_topics([NewTopic(name, 1, 1, topic_configs=config)])
    except TopicAlreadyExistsError:
        pass
    finally:
        admin.close()
    found = KitSettings(kafka_bootstrap=kafka.bootstrap)
    asyncio.run(reset_progress(found))
    return found


def encoded(events: Iterable[Event]) -> list[Record]:
    return [record for event in events for record in encode(event, "commander")]


async def reset_progress(kit: KitSettings) -> None:
    """Delete the collector's saved tick: other tests may have used the same broker."""

    async def up() -> None: ...

    outlet = TickProducer(kit, up)
    await outlet.start()
    await outlet.save("simcluster", None, None)
    await outlet.stop()


def cluster() -> SimulatedCluster:
    scenario = Scenario(
        name="collected-once",
        shows="Nothing.",
        start="Tue 10:00",
        length_minutes=2,
        warmup_minutes=0,
    )
    return SimulatedCluster(World(CLUSTER, scenario, [1]))


def stamp_of(tick: int) -> str:
    """Trace id of a tick of this run."""
    fresh = cluster()
    fresh.world.state.env["tick"] = tick
    return events.stamp_of(fresh.world, fresh.axis).trace_id


async def published(kit: KitSettings, *kinds: type[Event]) -> list[Event]:
    found: list[Event] = []
    async with Reader(kit) as reader:
        async for record in reader.to_end([topic_of(kind).name for kind in kinds]):
            event = decode(record.topic, record.value, record.headers)
            assert event is not None
            found.append(event)
    return found


def request(pool: str, live: LiveCluster) -> CapacityRequested:
    seen = live.cluster.observation()
    return CapacityRequested(
        tick=seen.tick,
        time=seen.time,
        pool=pool,
        epoch=seen.tick,
        valid_until_tick=seen.tick + 10,
        nodes=NodesByUrgency(),
    )


async def decide(live: LiveCluster, kit: KitSettings, last: int) -> None:
    """Close each tick without changes once its samples are published; request nodes over Kafka."""
    outlet = KafkaWriter("commander", kit, by_domain=False)
    await outlet.start()
    try:
        while live.cluster.tick < last:
            tick = live.cluster.tick
            while await last_tick(kit, "simcluster") < tick:  # noqa: ASYNC110  no event to wait for
                await asyncio.sleep(0.05)
            for domain in CLUSTER.domain_names:
                live.apply(domain, tick, [])
            if tick % 6 == 0:
                await outlet.publish(encoded(request(pool, live) for pool in CLUSTER.pool_names))
            await live.newer_than(tick)
    finally:
        await outlet.stop()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  no event to wait for
            await asyncio.sleep(0.05)


async def while_running(work: Coroutine[Any, Any, None], *others: asyncio.Task[None]) -> None:
    async with asyncio.timeout(60):
        await work
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def test_every_tick_is_published_once_across_a_restart_of_the_collector(kit: KitSettings) -> None:
    live = LiveCluster(cluster())
    feed = KafkaFeed(kit)

    async def run() -> None:
        async with TestServer(Api(live, lambda: feed.ready).application()) as server:
            settings = Settings(url=str(server.make_url("/")))
            feeding = asyncio.create_task(feed.run(live.request_capacity))
            pacing = asyncio.create_task(lock_step(live))
            await until(lambda: feed.ready)
            # The first collector is cancelled at tick 5, and the second continues.
            first = asyncio.create_task(collect(settings, kit))
            await while_running(decide(live, kit, 5), first)
            second = asyncio.create_task(collect(settings, kit))
            await while_running(decide(live, kit, TICKS), feeding, pacing)
            await second

    asyncio.run(run())
    assert live.cluster.finished
    # Other tests publish on the same broker; trace ids are a function of scenario, seed and tick.
    traces = {stamp_of(tick) for tick in range(TICKS)}
    seen = asyncio.run(published(kit, MetricsSampled, PoolObserved))
    ours = [event for event in seen if event.trace_id in traces]
    counted = Counter((e.tick, e.domain) for e in ours if isinstance(e, MetricsSampled))
    assert counted == Counter(
        {(tick, domain): 1 for tick in range(TICKS) for domain in CLUSTER.domain_names}
    )
    pools = [event for event in ours if isinstance(event, PoolObserved)]
    assert len(pools) == TICKS * len(CLUSTER.pool_names)
    reference = asyncio.run(published(kit, AppDeclared, DemandBackfilled, EventScheduled))
    apps = {event.app: event for event in reference if isinstance(event, AppDeclared)}
    assert [apps[name] for name in live.cluster.names] == live.cluster.inventory()
    history = {event.domain: event for event in reference if isinstance(event, DemandBackfilled)}
    assert [history[name] for name in CLUSTER.domain_names] == live.cluster.history()
    assert asyncio.run(last_tick(kit, "simcluster")) == TICKS - 1


def test_requests_of_an_earlier_run_are_ignored(kit: KitSettings) -> None:
    live = LiveCluster(cluster())
    received: list[CapacityRequested] = []

    async def publish(*requests: CapacityRequested) -> None:
        outlet = KafkaWriter("commander", kit, by_domain=False)
        await outlet.start()
        await outlet.publish(encoded(requests))
        await outlet.stop()

    async def run() -> None:
        await publish(request("payments", live))
        feed = KafkaFeed(kit)
        feeding = asyncio.create_task(feed.run(received.append))
        await until(lambda: feed.ready)
        await publish(request("fraud", live))
        await until(lambda: bool(received))
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)

    asyncio.run(run())
    assert [wanted.pool for wanted in received] == ["fraud"]


def test_a_new_process_knows_what_was_declared_before_it(kit: KitSettings) -> None:
    def declared(name: str, *, removed: bool = False) -> AppDeclared:
        return AppDeclared(app=name, domain="shop", ordinal=0, removed=removed)

    async def declare_and_read() -> set[str]:
        async def up() -> None: ...

        outlet = TickProducer(kit, up)
        await outlet.start()
        names = ("recall/web", "recall/left", "recall/gone")
        await outlet.publish([declared(name) for name in names])
        await outlet.publish([declared("recall/left", removed=True)])
        await outlet._send(lambda: outlet._producer.send(TOPIC, None, key=b"recall/gone").get(9))
        await outlet.stop()
        return {one.app for one in await declared_apps(kit) if one.app.startswith("recall/")}

    assert asyncio.run(declare_and_read()) == {"recall/web"}


def test_statuses_follow_budgets_from_the_beginning_and_audits_from_now_on(
    kit: KitSettings,
) -> None:
    heard: list[Event] = []
    budgets, audits = (granted(3), granted(4)), (audited(6), audited(7))

    async def up() -> None: ...

    async def until(*events: Event) -> None:
        while not all(one in heard for one in events):  # noqa: ASYNC110  no event to wait for
            await asyncio.sleep(0.05)

    async def run() -> None:
        outlet = TickProducer(kit, up)
        await outlet.start()
        await outlet.publish([budgets[0], audits[0]])
        following = asyncio.create_task(domain_news.follow(kit, heard.append))
        try:
            async with asyncio.timeout(60):
                await until(budgets[0])
                await outlet.publish([audits[1], budgets[1]])
                await until(audits[1], budgets[1])
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await outlet.stop()

    asyncio.run(run())
    assert audits[0] not in heard


def granted(epoch: int) -> BudgetGranted:
    return BudgetGranted(
        tick=6, time=STAMP, domain="payments", epoch=epoch, valid_until_tick=24, share=0.3,
        reserve_share=0.1, cores=100.0, memory_gib=400.0, reasons=["followed"],
    )  # fmt: skip


def audited(tick: int) -> ScaleApplied:
    return ScaleApplied(
        tick=tick, time=STAMP, domain="payments", epoch=3, decision_id="followed",
        apps=["shop/web"], outcomes=["applied"], reasons=["demand"], replicas=[6],
        cpu_request=[250], memory_request=[512], replicas_before=[4],
    )  # fmt: skip

"""The collector reads a simulated cluster over its real HTTP API."""

import asyncio

import aiohttp
import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from schemas.app_declared import AppDeclared
from schemas.demand_backfilled import DemandBackfilled
from schemas.fields import Event
from schemas.metrics_sampled import MetricsSampled
from services.collector.collect import Collector, SourceDown, SourceRestarted
from services.collector.simulated import SimulatedSource
from services.simcluster.http import Api
from services.simcluster.live import LiveCluster, lock_step
from tests.unit.services.collector.collector_helpers import MemoryWriter, metrics
from tests.unit.services.simcluster.simcluster_helpers import DOMAINS, close_all, simulated


class ClosingWriter(MemoryWriter):
    """Decides to do nothing as soon as a tick is published."""

    def __init__(self, live: LiveCluster) -> None:
        super().__init__()
        self._live = live

    async def save(self, key: str, data: bytes | None, partition: int | None) -> None:
        await super().save(key, data, partition)
        close_all(self._live.cluster)
        self._live._notify()


def test_every_tick_of_a_run_in_lock_step_is_collected() -> None:
    live = LiveCluster(simulated(minutes=2))
    writer = ClosingWriter(live)
    expected: list[Event] = [*live.cluster.observation().events]

    async def run() -> None:
        async with (
            TestServer(Api(live, lambda: True).application()) as server,
            aiohttp.ClientSession() as session,
        ):
            source = SimulatedSource(session, str(server.make_url("/")))
            await asyncio.gather(Collector(source, writer, metrics()[0]).run(), lock_step(live))

    asyncio.run(run())
    kinds = [type(event) for event in writer.published]
    assert kinds.count(AppDeclared) == len(live.cluster.names)
    assert kinds.count(DemandBackfilled) == len(DOMAINS)
    assert kinds.count(MetricsSampled) == 12 * len(DOMAINS)
    first = kinds.index(MetricsSampled)
    assert writer.published[first : first + len(expected)] == expected


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (500, b"oops", SourceDown),
        (200, b"{", SourceDown),
        (200, b'{"tick": "x"}', SourceDown),
        (200, b'{"declared": [{"app": "\xff"}]}', SourceDown),
        (200, b'{"x": ' + b"[" * 100_000, SourceDown),
        (302, b'{"tick": 4}', SourceDown),
        (409, b"", SourceRestarted),
    ],
)
def test_an_invalid_answer_raises_an_error(
    status: int, body: bytes, error: type[Exception]
) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, body=body)

    app = web.Application()
    app.router.add_get("/v1/observation", answer)

    async def run() -> None:
        async with TestServer(app) as server, aiohttp.ClientSession() as session:
            await SimulatedSource(session, str(server.make_url("/"))).observe(3)

    with pytest.raises(error):
        asyncio.run(run())


def test_an_unreachable_cluster_is_down() -> None:
    async def run() -> None:
        async with aiohttp.ClientSession() as session:
            await SimulatedSource(session, "http://127.0.0.1:9").inventory()

    with pytest.raises(SourceDown, match=r"127\.0\.0\.1:9/v1/inventory"):
        asyncio.run(run())


def test_simulated_events_match_their_schemas() -> None:
    for event in simulated().observation().events:
        again = msgspec.json.decode(msgspec.json.encode(event), type=type(event))
        assert again == event

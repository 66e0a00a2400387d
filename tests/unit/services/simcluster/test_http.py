"""The HTTP API answers in JSON, supports long polls, and explains its errors."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp.test_utils import TestClient, TestServer

from services._kit.errors import BadSettings
from services._kit.settings import KitSettings, load
from services.simcluster import events
from services.simcluster.app import serve, world_of
from services.simcluster.feed import Deliver, NoFeed
from services.simcluster.http import Api
from services.simcluster.live import LiveCluster, by_clock, lock_step
from services.simcluster.settings import Settings, with_arguments
from services.simcluster.target import Entry
from tests.unit.services.simcluster.simcluster_helpers import DOMAINS, POOLS, request, simulated

Client = TestClient[Any, Any]
INVALID = '{"changes": [{"app": "\udcff"}]}'
"""With a byte that is not UTF-8."""


@asynccontextmanager
async def served(live: LiveCluster, *, ready: bool = True) -> AsyncIterator[Client]:
    async with TestClient(TestServer(Api(live, lambda: ready).application())) as client:
        yield client


def with_client(test: Callable[[LiveCluster, Client], Awaitable[None]]) -> LiveCluster:
    live = LiveCluster(simulated(minutes=1))

    async def run() -> None:
        async with served(live) as client:
            await test(live, client)

    asyncio.run(run())
    return live


async def close(client: Client, tick: int) -> None:
    for domain in DOMAINS:
        async with client.put(f"/v1/domains/{domain}/ticks/{tick}", json={}) as answer:
            assert answer.status == 200
    if tick % 6 == 0:
        for pool in POOLS:
            body = msgspec.json.encode(request(pool, tick, epoch=tick))
            async with client.put(f"/v1/pools/{pool}/request", data=body) as answer:
                assert (await answer.json())["answer"] == "accepted"


def test_a_client_in_lock_step_sees_every_tick_and_then_the_end() -> None:
    async def test(live: LiveCluster, client: Client) -> None:
        pacing = asyncio.create_task(lock_step(live))
        ticks, after = [], -1
        while True:
            seen = await (await client.get(f"/v1/observation?after={after}")).json()
            if seen["finished"]:
                break
            after = seen["tick"]
            ticks.append(after)
            await close(client, after)
        await pacing
        assert ticks == list(range(6))
        results = await (await client.get("/v1/results")).json()
        assert results["finished"]
        assert results["rows"][0]["seed"] == 3

    with_client(test)


def test_a_long_poll_returns_the_next_tick_or_204_after_its_wait() -> None:
    async def test(live: LiveCluster, client: Client) -> None:
        assert (await client.get("/v1/observation?after=0&wait=0.05")).status == 204
        polling = asyncio.create_task(client.get("/v1/observation?after=0"))
        await asyncio.sleep(0.05)
        assert not polling.done()
        live.advance()
        assert (await (await polling).json())["tick"] == 1

    with_client(test)


def test_writes_are_answered_by_app_read_back_and_journaled() -> None:
    async def test(live: LiveCluster, client: Client) -> None:
        app = live.cluster.names[0]
        change = {"app": app, "replicas": 4, "cpu_request": 0, "memory_request": 0}
        stranger = {**change, "app": "stranger", "decision_id": "d1"}
        body = {"changes": [{**change, "decision_id": "d1"}, stranger]}
        for expected in ("applied", "repeat"):
            answer = await (await client.put("/v1/domains/payments/ticks/0", json=body)).json()
            assert answer["answers"] == {app: expected, "stranger": "refused"}
            assert answer["detail"] == "unknown apps in payments: stranger"
        stored = await (await client.get("/v1/domains/payments")).json()
        assert stored["closed_tick"] == 0
        assert stored["apps"][app]["decision_id"] == "d1"
        assert stored["apps"][app]["asked"]["replicas"] == 4
        present = stored["apps"][app]["present"]
        assert present["replicas"] == 4
        assert {"ready", "starting", "pending"} < present.keys()
        lines = (await (await client.get("/v1/journal?after=0")).read()).splitlines()
        journal = [msgspec.json.decode(line, type=Entry) for line in lines]
        assert [entry.outcome for entry in journal] == ["refused", "repeat", "refused"]
        whole = (await (await client.get("/v1/journal?after=-3")).read()).splitlines()
        assert len(whole) == 4

    with_client(test)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "sentence"),
    [
        ("GET", "/v1/domains/nowhere", "", 404, "domain nowhere is unknown: expected one of"),
        ("GET", "/v1/nowhere", "", 404, "Not Found"),
        (
            "GET",
            "/v1/observation?after=9",
            "",
            409,
            "the cluster is at tick 0, so it was restarted",
        ),
        ("GET", "/v1/observation?after=x", "", 400, "after: expected a whole number, got 'x'"),
        ("GET", "/v1/observation?wait=x", "", 400, "wait: expected seconds, got 'x'"),
        ("PUT", "/v1/domains/data/ticks/7", "", 409, "tick 7 is in the future"),
        ("PUT", "/v1/domains/data/ticks/0", "{", 400, "body: Input data was truncated"),
        ("PUT", "/v1/domains/data/ticks/0", INVALID, 400, "body: 'utf-8' codec can't"),
        ("PUT", "/v1/domains/data/ticks/0", '{"a": ' + "[" * 10**5, 400, "body: maximum recursion"),
        ("PUT", "/v1/domains/data/ticks/0", '{"changes": [{}]}', 400, "missing required field"),
        ("PUT", "/v1/pools/data/request", "{}", 400, "missing required field"),
    ],
)
def test_an_error_is_a_problem_with_one_sentence(
    method: str, path: str, body: str, status: int, sentence: str
) -> None:
    async def test(_: LiveCluster, client: Client) -> None:
        data = body.encode(errors="surrogateescape")
        async with client.request(method, path, data=data) as answer:
            assert answer.status == status
            assert answer.content_type == "application/problem+json"
            problem = await answer.json(content_type=None)
            assert problem["status"] == status
            assert sentence in problem["detail"]

    with_client(test)


def test_it_is_not_ready_while_node_requests_would_be_lost() -> None:
    async def run() -> None:
        async with served(LiveCluster(simulated()), ready=False) as client:
            assert (await client.get("/healthz")).status == 200
            assert (await client.get("/readyz")).status == 503

    asyncio.run(run())


def test_a_slow_machine_runs_late_and_does_not_catch_up() -> None:
    live = LiveCluster(simulated(minutes=1))
    now, sleeps = 100.0, []

    async def sleep(seconds: float) -> None:
        nonlocal now
        sleeps.append(round(seconds, 6))
        # The third tick takes much longer than it should.
        now += seconds + (3.0 if len(sleeps) == 3 else 0.0)

    asyncio.run(by_clock(live, 10.0, lambda: now, sleep))
    assert live.cluster.finished
    assert sleeps[:3] == [1.0, 1.0, 1.0]
    assert sleeps[3] == 0.0
    assert sleeps[4:] == [1.0, 1.0]


def test_a_whole_process_answers_and_ends_with_its_scenario() -> None:
    ports: list[int] = []

    class PublishedRequests(NoFeed):
        async def run(self, deliver: Deliver) -> None:
            for pool in POOLS:
                deliver(request(pool, 0, epoch=1))
            await super().run(deliver)

    live = LiveCluster(simulated(minutes=1))
    settings = Settings(scenario="calm", port=0, linger_seconds=0)
    asyncio.run(
        serve(settings, KitSettings(speed=10_000.0), live, PublishedRequests(), ports.append)
    )
    assert ports[0] > 0
    assert live.cluster.finished


def test_a_command_line_option_overrides_its_variable() -> None:
    environment = with_arguments(
        ["--scenario", "calm", "--apps", "20", "--speed", "60"], {"HIRL_X": "1"}
    )
    assert environment == {
        "HIRL_X": "1",
        "HIRL_SIMCLUSTER_SCENARIO": "calm",
        "HIRL_SIMCLUSTER_APPS": "20",
        "HIRL_SPEED": "60",
    }
    del environment["HIRL_X"]
    kit, settings = load("simcluster", Settings, environment)
    assert (kit.speed, settings.apps, settings.on_loopback) == (60.0, 20, True)
    world = world_of(settings)
    assert world.given.apps.size == 20
    assert world.cluster.physics.scheduler.order == "priority"
    with pytest.raises(BadSettings, match="scheduling: expected one of fifo"):
        load("simcluster", Settings, {**environment, "HIRL_SIMCLUSTER_SCHEDULING": "lottery"})


def test_history_is_computed_once_however_often_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    computed = []

    def backfill(*arguments: object) -> list[object]:
        computed.append(arguments)
        time.sleep(0.1)  # in a large cluster a client gives up and asks again meanwhile
        return []

    monkeypatch.setattr(events, "backfill", backfill)

    async def test(live: LiveCluster, client: Client) -> None:
        del live
        answers = await asyncio.gather(*(client.get("/v1/history") for _ in range(3)))
        assert [await answer.json() for answer in answers] == [[], [], []]

    with_client(test)
    assert len(computed) == 1

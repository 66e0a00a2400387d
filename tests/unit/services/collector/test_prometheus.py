"""A sample that Prometheus does not return is missing: never zero, never old, never fatal."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from schemas.app_declared import AppDeclared
from schemas.metrics_sampled import PODS, MetricsSampled
from schemas.pool_observed import PoolObserved
from services._kit.clock import ManualClock
from services.collector.batches import Values
from services.collector.collect import NO_TICK, Observed, SourceRestarted
from services.collector.kubernetes import ClusterView
from services.collector.prometheus import MINUTES, PrometheusSource, Timing
from services.collector.prometheus_api import Prometheus
from services.collector.queries import Declared, Queries, Query

NOW = 1_790_000_003.0
TICK = 179_000_001
"""The first that ends after NOW."""
DECLARED = Declared(
    apps=[
        AppDeclared(app="web", domain="shop", ordinal=1),
        AppDeclared(app="api", domain="shop", ordinal=0),
        AppDeclared(app="etl", domain="data", ordinal=2),
    ]
)
QUERIES = Queries(queries={"rps": Query(query="rps[$window]"), "cpu_cores": Query(query="cpu")})


def series(value: str, age: float = 0.0, **labels: str) -> dict[str, Any]:
    return {"metric": labels, "value": [TICK * 10 - age, value]}


class FakePrometheus:
    """Answers each query as a test asks: with series, a status, or too late."""

    def __init__(self, **answers: list[dict[str, Any]] | int) -> None:
        self._answers = answers
        self.asked: list[dict[str, str]] = []

    async def _answer(self, request: web.Request) -> web.Response:
        form = {key: str(value) for key, value in (await request.post()).items()}
        self.asked.append(form)
        answer = self._answers.get(form["query"].split("[")[0], [])
        if isinstance(answer, int):
            if answer == 0:
                await asyncio.sleep(5)
            return web.Response(status=answer or 200, text="oops")
        kind = "matrix" if request.path.endswith("range") else "vector"
        body = {"status": "success", "data": {"resultType": kind, "result": answer}}
        return web.Response(body=msgspec.json.encode(body), content_type="application/json")

    def use(
        self,
        test: Callable[[PrometheusSource], Awaitable[Any]],
        queries: Queries = QUERIES,
        declared: Declared | None = DECLARED,
        clock: ManualClock | None = None,
        tick_s: int = 10,
        cluster: ClusterView | None = None,
    ) -> Any:
        clock = clock or ManualClock(NOW)
        self.errors: list[str] = []

        async def sleep(seconds: float) -> None:
            clock.advance(seconds)

        async def run() -> Any:
            app = web.Application()
            app.router.add_post("/api/v1/query", self._answer)
            app.router.add_post("/api/v1/query_range", self._answer)
            async with TestServer(app) as server, aiohttp.ClientSession() as session:
                prometheus = Prometheus(session, str(server.make_url("/")), 0.3)
                timing = Timing(tick_s, settle_s=2.0, catch_up_ticks=3)
                return await test(
                    PrometheusSource(
                        prometheus,
                        queries,
                        declared,
                        clock,
                        self.errors.append,
                        timing,
                        sleep,
                        cluster,
                    )
                )

        return asyncio.run(run())


class PlayedView(ClusterView):
    """An API server that has these apps, and nothing else to say."""

    domains: tuple[str, ...] = ()

    def __init__(self, *apps: str) -> None:
        self.apps = list(apps)
        self.is_current = True

    async def start(self) -> None:
        pass

    def declared(self) -> list[AppDeclared] | None:
        if not self.is_current:
            return None
        return [AppDeclared(app=name, domain="shop", ordinal=0) for name in self.apps]

    async def samples(self) -> dict[str, Values]:
        return {}

    def pools(self) -> dict[str, Values]:
        return {}


async def observe(source: PrometheusSource, after: int) -> Observed:
    """The next tick of a clock that nobody corrects."""
    observed = await source.observe(after)
    assert observed is not None
    return observed


async def once(source: PrometheusSource) -> Observed:
    return await observe(source, -1)


def batches(observed: Observed) -> dict[str, MetricsSampled]:
    return {event.domain: event for event in observed.events if isinstance(event, MetricsSampled)}


def test_samples_are_taken_at_the_end_of_the_tick_in_the_order_of_the_inventory() -> None:
    fake = FakePrometheus(
        rps=[series("12.5", app="web", namespace="shop"), series("3", app="api", namespace="shop")]
    )
    observed = fake.use(once)
    assert observed.tick == TICK
    assert {float(form["time"]) for form in fake.asked} == {TICK * 10}
    assert "rps[60s]" in {form["query"] for form in fake.asked}
    shop = batches(observed)["shop"]
    assert (shop.apps, shop.rps) == (["api", "web"], [3.0, 12.5])
    assert shop.final
    assert shop.time == "2026-09-21T14:13:30Z"


def test_ticks_are_as_long_as_those_of_the_services() -> None:
    observed = FakePrometheus().use(once, tick_s=30)
    assert observed.tick == TICK // 3
    assert {event.time for event in batches(observed).values()} == {"2026-09-21T14:13:30Z"}


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-1", "abc"])
def test_a_value_that_is_no_measurement_is_missing(value: str) -> None:
    observed = FakePrometheus(rps=[series(value, app="api", namespace="shop")]).use(once)
    assert batches(observed)["shop"].rps == [None, None]


def test_zero_is_a_sample() -> None:
    observed = FakePrometheus(rps=[series("0", app="api", namespace="shop")]).use(once)
    assert batches(observed)["shop"].rps == [0.0, None]


def test_a_stale_sample_is_missing() -> None:
    old = [series("5", age=31, app="api", namespace="shop")]
    assert batches(FakePrometheus(rps=old).use(once))["shop"].rps == [None, None]


def test_an_app_with_two_series_is_missing() -> None:
    twice = [series("5", app="api", namespace="shop"), series("6", app="api", namespace="shop")]
    assert batches(FakePrometheus(rps=twice).use(once))["shop"].rps == [None, None]


def test_a_series_of_another_domain_does_not_match_by_name() -> None:
    other = [series("5", app="api", namespace="else"), series("6", app="web")]
    assert batches(FakePrometheus(rps=other).use(once))["shop"].rps == [None, 6.0]


@pytest.mark.parametrize("status", [500, 503, 404, 200, 0])
def test_a_query_that_fails_makes_its_samples_missing_and_is_counted(status: int) -> None:
    fake = FakePrometheus(rps=status, cpu=[series("2", app="api", namespace="shop")])
    shop = batches(fake.use(once))["shop"]
    assert (shop.rps, shop.cpu_cores) == ([None, None], [2.0, None])
    assert fake.errors == ["rps"]


def test_a_prometheus_that_is_down_does_not_stop_the_ticks() -> None:
    async def twice(source: PrometheusSource) -> list[Observed]:
        source._server._url = "http://127.0.0.1:9"
        first = await observe(source, -1)
        return [first, await observe(source, first.tick)]

    fake = FakePrometheus()
    first, second = fake.use(twice)
    assert second.tick == first.tick + 1
    assert batches(second)["data"].rps == [None]
    assert len(fake.errors) == 4


def test_after_a_pause_only_the_last_ticks_are_queried() -> None:
    async def ticks(source: PrometheusSource) -> list[int]:
        seen, after = [], TICK - 100
        for _ in range(5):
            after = (await observe(source, after)).tick
            seen.append(after)
        return seen

    assert FakePrometheus().use(ticks) == list(range(TICK - 4, TICK + 1))


def test_a_clock_that_is_set_back_a_little_is_waited_for_in_short_sleeps(
    caplog: pytest.LogCaptureFixture,
) -> None:
    slept: list[float] = []

    async def minute(source: PrometheusSource) -> list[int]:
        async def sleep(seconds: float) -> None:
            slept.append(seconds)
            clock.advance(seconds)

        source._sleep = sleep
        after = TICK + 2
        seen: list[int] = []
        while not seen:
            observed = await source.observe(after)
            seen += [observed.tick] if observed else []
        return seen

    clock = ManualClock(NOW)
    fake = FakePrometheus()
    assert fake.use(minute, clock=clock) == [TICK + 3]
    assert max(slept) <= 12
    assert "nothing is published for 39 s" in caplog.text
    assert fake.errors.count("clock") == 1, "a line a minute"


def test_a_clock_that_was_an_hour_ahead_is_followed_as_soon_as_it_is_corrected() -> None:
    async def corrected(source: PrometheusSource) -> Observed:
        # Ticks that were published an hour ahead of their time: readers refused them.
        with pytest.raises(SourceRestarted, match="3619 s behind tick"):
            await source.observe(TICK + 360)
        return await observe(source, NO_TICK)

    fake = FakePrometheus()
    assert fake.use(corrected).tick == TICK, "the tick that ends next"
    assert fake.errors == ["clock"]


def test_apps_without_all_pod_columns_go_in_a_batch_of_their_own() -> None:
    pods = {name: [series("2", app="api", namespace="shop")] for name in PODS}
    asked = {name: Query(query=name) for name in (*PODS, "rps")}
    fake = FakePrometheus(**pods, rps=[series("7", app="web", namespace="shop")])
    observed = fake.use(once, Queries(queries=asked))
    first, last = [
        event
        for event in observed.events
        if isinstance(event, MetricsSampled) and event.domain == "shop"
    ]
    assert (first.apps, first.replicas, first.rps, first.final) == (["api"], [2], [None], False)
    assert (last.apps, last.replicas, last.rps, last.final) == (["web"], [], [7.0], True)


def test_a_count_that_is_too_large_is_not_published() -> None:
    pods = {name: [series("2", app="api", namespace="shop")] for name in PODS}
    pods["restarts"] = [series("3e9", app="api", namespace="shop")]
    observed = FakePrometheus(**pods).use(
        once, Queries(queries={name: Query(query=name) for name in PODS})
    )
    assert batches(observed)["shop"].replicas == []


def test_without_an_inventory_apps_are_declared_once_in_preview() -> None:
    async def twice(source: PrometheusSource) -> tuple[Observed, Observed]:
        first = await observe(source, -1)
        source._queries = Queries(queries={"rps": Query(query="nothing")})
        return first, await observe(source, first.tick)

    fake = FakePrometheus(rps=[series("5", app="api", namespace="shop")])
    first, second = fake.use(twice, declared=None)
    assert first.events[0] == AppDeclared(
        app="api", domain="shop", ordinal=0, max_replicas=None, mode="preview"
    )
    assert [type(event) for event in second.events] == [MetricsSampled]
    assert batches(second)["shop"].rps == [None], "silent is missing, not gone"


def test_two_apps_of_one_name_are_reported_and_the_first_domain_keeps_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def twice(source: PrometheusSource) -> tuple[Observed, Observed]:
        first = await observe(source, -1)
        return first, await observe(source, first.tick)

    fake = FakePrometheus(
        rps=[series("5", app="api", namespace="shop"), series("6", app="api", namespace="data")]
    )
    first, second = fake.use(twice, declared=None)
    declarations = [
        event for event in (*first.events, *second.events) if isinstance(event, AppDeclared)
    ]
    assert [(app.app, app.domain) for app in declarations] == [("api", "data")]
    assert caplog.text.count("api of shop is not declared: data has an app of this name") == 1
    assert fake.errors.count("discovery") == 1


def test_a_pool_is_published_only_with_all_required_fields() -> None:
    names = ("ready", "booting", "quota", "free_cores", "free_memory_gib")
    queries = Queries(queries={}, pools={name: name for name in names})
    answers = {name: [series("3", pool="a"), series("3", pool="b")] for name in names}
    answers["quota"] = [series("9", pool="a")]
    observed = FakePrometheus(**answers).use(once, queries)
    (pool,) = [event for event in observed.events if isinstance(event, PoolObserved)]
    assert (pool.pool, pool.ready, pool.quota, pool.free_cores) == ("a", 3, 9, 3.0)


def test_history_is_null_before_the_first_recorded_minute() -> None:
    until = int(NOW // 60) * 60
    values = [[until - 60 * ago, str(ago)] for ago in (2, 1, 0)]
    fake = FakePrometheus(rate=[{"metric": {"namespace": "shop"}, "values": values}])
    queries = Queries(queries={}, history="rate[1m]")
    (shop,) = fake.use(lambda source: source.history(), queries)
    assert shop.until_tick == until // 10
    assert len(shop.rps) == MINUTES
    assert shop.rps[-4:] == [None, 2.0, 1.0, 0.0]
    assert len(fake.asked) == 2


def test_a_failed_history_query_gives_no_history() -> None:
    fake = FakePrometheus(rate=500)
    queries = Queries(queries={}, history="rate[1m]")
    assert fake.use(lambda source: source.history(), queries) == []
    assert fake.errors == ["history"]


def test_an_app_that_went_while_ticks_were_skipped_is_declared_as_removed() -> None:
    view = PlayedView("shop/web", "shop/api")

    async def play(source: PrometheusSource) -> Any:
        await source.inventory()
        view.apps.remove("shop/web")
        return [(one.app, one.removed) for one in await source.inventory()]

    found = FakePrometheus().use(play, declared=None, cluster=view)
    assert found == [("shop/web", True), ("shop/api", False)]


def test_an_app_that_went_while_the_collector_was_down_is_declared_as_removed() -> None:
    names = ("shop/gone", "shop/web", "payments-0001")
    before = [AppDeclared(app=name, domain="shop", ordinal=0) for name in names]

    async def play(source: PrometheusSource) -> Any:
        source.recall(before)
        first = [(one.app, one.removed) for one in await source.inventory()]
        return first, [(one.app, one.removed) for one in await source.inventory()]

    first, again = FakePrometheus().use(play, declared=None, cluster=PlayedView("shop/web"))
    assert first == [("shop/gone", True), ("shop/web", False)]
    assert again == [("shop/web", False)]


def test_a_domain_without_apps_reports_that_it_has_none_unless_that_is_not_known() -> None:
    view = PlayedView("shop/web")
    view.domains = ("new", "shop")

    async def play(source: PrometheusSource) -> list[Observed]:
        first = await observe(source, -1)
        view.is_current = False
        return [first, await observe(source, first.tick)]

    known, unknown = FakePrometheus().use(play, declared=None, cluster=view)
    assert {name: one.apps for name, one in batches(known).items()} == {
        "new": [], "shop": ["shop/web"],
    }  # fmt: skip
    assert all(batch.final for batch in batches(known).values())
    assert batches(unknown).keys() == {"shop"}


def test_requests_of_a_stateful_set_are_its_own_unless_a_deployment_has_its_name() -> None:
    view = PlayedView("shop/db", "shop/statefulsets/db", "shop/statefulsets/queue")
    named = [series("1", namespace="shop", app="db"), series("2", namespace="shop", app="queue")]
    queries = Queries(queries={"rps": Query(query="rps")}, domain_label="namespace")
    observed = FakePrometheus(rps=named).use(once, queries, None, cluster=view)
    batch = batches(observed)["shop"]
    assert dict(zip(batch.apps, batch.rps, strict=True)) == {
        "shop/db": 1.0, "shop/statefulsets/db": None, "shop/statefulsets/queue": 2.0,
    }  # fmt: skip

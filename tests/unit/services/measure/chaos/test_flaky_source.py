"""The proxy falsifies what it should, and records the true metrics."""

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from schemas.codec import decode
from schemas.metrics_sampled import MEASURED, MetricsSampled
from schemas.topics import topic_of
from services.measure.chaos.flaky_source import Falsification, FlakySource
from services.measure.chaos.records import example_of

TOPIC = topic_of(MetricsSampled).name


def answer(tick: int, **changed: Any) -> dict[str, Any]:
    """An observation of two domains."""
    batches = [
        example_of(TOPIC) | {"domain": domain, "tick": tick} | changed
        for domain in ("payments", "data")
    ]
    return {"tick": tick, "finished": False, "sampled": batches, "declared": []}


def answered(source: FlakySource, falsification: Falsification, tick: int = 8) -> dict[str, Any]:
    """What the collector gets at a tick, after an honest one."""
    source.falsify(answer(7, rps=[1.0, 2.0, 3.0]))
    source.falsify_as(falsification)
    found: dict[str, Any] = json.loads(source.falsify(answer(tick)))
    return found


def batch_of(found: dict[str, Any], domain: str) -> dict[str, Any]:
    return next(batch for batch in found["sampled"] if batch["domain"] == domain)


@pytest.mark.parametrize("kind", ["zero", "no rps", "NaN", "frozen", "stale", "ahead"])
def test_only_the_metrics_of_the_chosen_domain_are_falsified(kind: Any) -> None:
    source = FlakySource()
    found = answered(source, Falsification(kind, frozenset({"payments"})))
    assert batch_of(found, "data") == batch_of(answer(8), "data")
    assert batch_of(found, "payments") != batch_of(answer(8), "payments")
    # Valid in form: only what it says is false.
    decode(TOPIC, json.dumps(batch_of(found, "payments")).encode())
    assert source.stop() == {(8, "payments")}
    assert json.loads(source.falsify(answer(9))) == answer(9)


def test_a_broken_exporter_reports_zeros_or_nothing() -> None:
    every = frozenset({"payments", "data"})
    zeros = batch_of(answered(FlakySource(), Falsification("zero", every)), "data")
    nulls = batch_of(answered(FlakySource(), Falsification("NaN", every)), "data")
    assert all(zeros[name] == [0.0] * 3 for name in MEASURED)
    assert all(nulls[name] == [None] * 3 for name in MEASURED)
    assert zeros["replicas"] == nulls["replicas"] == example_of(TOPIC)["replicas"]


def test_frozen_numbers_come_under_the_present_tick_and_stale_ones_under_their_own() -> None:
    every = frozenset({"payments"})
    frozen = batch_of(answered(FlakySource(), Falsification("frozen", every)), "payments")
    stale = batch_of(answered(FlakySource(), Falsification("stale", every)), "payments")
    assert (frozen["tick"], frozen["rps"]) == (8, [1.0, 2.0, 3.0])
    assert (stale["tick"], stale["rps"]) == (7, [1.0, 2.0, 3.0])


def test_a_source_is_ahead_for_fewer_ticks_than_readers_follow() -> None:
    source = FlakySource()
    source.falsify_as(Falsification("ahead", frozenset({"data"})))
    ticks = [
        batch_of(json.loads(source.falsify(answer(tick))), "data")["tick"] for tick in range(5)
    ]
    assert ticks == [360, 361, 2, 3, 4]


def test_an_invalid_answer_is_no_json_and_a_repeated_one_is_an_earlier_tick() -> None:
    every = frozenset({"payments", "data"})
    source = FlakySource()
    source.falsify(answer(7))
    source.falsify_as(Falsification("invalid", every))
    assert "NaN" in source.falsify(answer(8))
    source.falsify_as(Falsification("repeated", every))
    assert json.loads(source.falsify(answer(8)))["tick"] == 7


def test_it_learns_what_apps_use_and_what_their_pods_can_carry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    samples = answer(
        8, apps=["a", "b", "c"], cpu_cores=[1.0, None, 3.0], measured_pods=[2.0, 2.0, 10.0],
        cpu_request=[1000, 1000, 500],
    )  # fmt: skip
    answers: dict[str, Any] = {
        "/v1/inventory": [{"app": "a", "saturation": 1.5}, {"app": "b"}],
        "/v1/observation": samples | {"declared": [{"app": "c", "saturation": 0.5}]},
        "/v1/calendar": [],
    }

    async def forward(_: FlakySource, request: web.Request) -> web.Response:
        return web.Response(body=json.dumps(answers[request.path]).encode())

    monkeypatch.setattr(FlakySource, "forward", forward)
    source = FlakySource()
    source.falsify_as(Falsification("zero", frozenset({"payments", "data"})))
    for path in answers:
        asyncio.run(source.respond(make_mocked_request("GET", path)))
    # No more than requested, whatever is declared; at least what was seen.
    assert source.full_at == {"a": 1.0, "b": 1.0, "c": 0.6}
    # The truth, whatever the collector gets.
    assert source.used == {(8, "a"): 1.0, (8, "c"): 3.0}

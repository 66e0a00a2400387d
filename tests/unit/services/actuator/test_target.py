"""What the simulated cluster has is read over HTTP, and a change is written against it."""

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from schemas.scale_applied import ScaleApplied
from services.actuator.answers import with_answers
from services.actuator.ruling import COLUMNS
from services.actuator.simulated import SimulatedTarget
from services.actuator.target import (
    Numbers,
    Present,
    Read,
    Reading,
    Write,
    Written,
)
from services.simcluster.http import Api
from tests.service_helpers import DOMAIN, time_of
from tests.unit.services.actuator.target_helpers import Flaky, carried_out, cluster, write


def answering(status: int, times: int = 10**6) -> web.Application:
    """A server that fails some times, then says that it has no apps."""
    asked = []

    async def handle(_: web.Request) -> web.Response:
        asked.append(1)
        if len(asked) <= times:
            return web.Response(status=status)
        return web.json_response({"closed_tick": -1, "apps": {}})

    server = web.Application()
    server.router.add_route("*", "/{path:.*}", handle)
    return server


READ = Read(domain=DOMAIN, tick=0)
HUGE_APP = {"decision_id": "", "present": dict.fromkeys(Present.__struct_fields__, 2**32)}


def test_a_read_gives_what_the_cluster_has() -> None:
    live = cluster()
    (found,) = asyncio.run(carried_out(Api(live, lambda: True).application(), READ))
    assert isinstance(found, Reading)
    assert found.apps is not None
    stored = live.cluster.read_back(DOMAIN)
    assert found.apps.keys() == stored.keys()
    for app, present in found.apps.items():
        assert present.replicas == stored[app].present.replicas
        assert present.ready == stored[app].present.ready


def test_a_change_against_other_numbers_is_a_conflict_and_changes_nothing() -> None:
    live = cluster()
    app = live.cluster.names[0]
    now = live.cluster.read_back(DOMAIN)[app].present
    stale = Numbers(now.replicas + 1, now.cpu_request, now.memory_request)
    server = Api(live, lambda: True).application()
    (written,) = asyncio.run(carried_out(server, write(app, 1, stale)))
    assert isinstance(written, Written)
    assert written.answers == {app: "conflict"}
    assert live.cluster.read_back(DOMAIN)[app].present == now


def test_a_change_against_what_was_read_is_applied() -> None:
    live = cluster()
    app = live.cluster.names[0]
    now = live.cluster.read_back(DOMAIN)[app].present
    before = Numbers(now.replicas, now.cpu_request, now.memory_request)
    server = Api(live, lambda: True).application()
    found = asyncio.run(carried_out(server, READ, write(app, now.replicas + 1, before)))
    assert isinstance(found[1], Written)
    assert found[1].answers == {app: "applied"}


def test_a_cluster_that_rejects_or_never_answers_is_unreadable() -> None:
    for status, give_up_s in ((404, 5.0), (503, 0.1)):
        (found,) = asyncio.run(carried_out(answering(status), READ, give_up_s=give_up_s))
        assert isinstance(found, Reading)
        assert found.apps is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"\xff",
        b"[" * 100_000,
        b'{"closed_tick": 1}',
        b'{"closed_tick": 1, "apps": {"a": {"decision_id": "", "present": {"replicas": -1}}}}',
        json.dumps({"closed_tick": 1, "apps": {"a": HUGE_APP}}).encode(),
    ],
)
def test_a_malformed_answer_counts_as_none_and_stops_nothing(body: bytes) -> None:
    async def handle(_: web.Request) -> web.Response:
        return web.Response(body=body)

    server = web.Application()
    server.router.add_route("*", "/{path:.*}", handle)
    made = write("a", 3, Numbers(2, 1000, 2048))
    read, written = asyncio.run(carried_out(server, READ, made, give_up_s=0.1))
    assert isinstance(read, Reading)
    assert read.apps is None
    assert isinstance(written, Written)
    assert not written.answered
    assert "malformed" in written.detail


def test_a_target_answers_no_other_write_than_the_one_it_got() -> None:
    async def handle(_: web.Request) -> web.Response:
        lie = {"domain": "other", "tick": 99, "answered": False, "answers": {"a": "applied"}}
        return web.json_response(lie | {"closed_tick": -1, "apps": {}})

    server = web.Application()
    server.router.add_route("*", "/{path:.*}", handle)
    made = write("a", 3, Numbers(2, 1000, 2048))
    (written,) = asyncio.run(carried_out(server, made))
    assert written == Written(domain=DOMAIN, tick=made.tick, answers={"a": "applied"})


def test_a_read_that_fails_is_tried_again() -> None:
    (found,) = asyncio.run(carried_out(answering(503, times=2), READ))
    assert isinstance(found, Reading)
    assert found.apps == {}


def refusals(url: str, status: int = 503, body: str = "") -> list[str]:
    """Reasons in the audit after a target at a URL refused a change."""

    async def handle(_: web.Request) -> web.Response:
        return web.Response(status=status, text=body)

    async def refused() -> Reading | Written:
        server = web.Application()
        server.router.add_route("*", "/{path:.*}", handle)
        async with TestServer(server, port=0) as running:
            target = SimulatedTarget(url.format(port=running.port), 0.1, 0.1)
            try:
                return await target.carry_out(write("app", 2, Numbers(1, 1, 1)))
            finally:
                await target.close()

    result = asyncio.run(refused())
    assert isinstance(result, Written)
    planned = applied_to(["app"])
    return with_answers(planned, result).reasons


@pytest.mark.parametrize(
    ("url", "status", "body"),
    [
        ("http://root:s3cret@127.0.0.1:{port}", 503, ""),
        ("http://root:s3cret@127.0.0.1:{port}", 409, "see http://root:s3cret@127.0.0.1/doc"),
        ("http://root:s3cret@127.0.0.1:1", 503, ""),
    ],
)
def test_the_audit_has_neither_password_nor_address_of_the_target(
    url: str, status: int, body: str
) -> None:
    (reason,) = refusals(url, status, body)
    assert "target" in reason
    assert "s3cret" not in reason
    assert "127.0.0.1:" not in reason


def test_the_targets_message_is_cut_before_it_enters_the_audit() -> None:
    (reason,) = refusals("http://127.0.0.1:{port}", 400, "no! " * 100_000)
    assert len(reason) <= 300


def applied_to(apps: list[str]) -> ScaleApplied:
    ones: dict[str, Any] = {}
    for name in COLUMNS:
        ones |= {name: [2] * len(apps), f"{name}_before": [1] * len(apps)}
    return ScaleApplied(
        tick=0, time=time_of(0), domain=DOMAIN, decision_id="d", epoch=0, mode="auto",
        apps=apps, outcomes=["applied"] * len(apps), reasons=["scale-out"] * len(apps), **ones,
    )  # fmt: skip


def test_the_outcome_of_a_write_that_is_never_answered_is_unknown() -> None:
    flaky = Flaky()
    flaky.statuses = [503] * 10**4
    (written,) = flaky.carry_out(flaky.change(), give_up_s=0.3)
    assert not written.answered
    assert written.answers == {}
    assert "503" in written.detail
    assert flaky.outcomes[0] == "applied"


def test_a_write_that_was_never_answered_gets_its_whole_time_again() -> None:
    flaky = Flaky()
    flaky.statuses = [503] * 10**4
    change = flaky.change()
    before = len(flaky.requests)
    for written in flaky.carry_out(change, change, give_up_s=0.3):
        assert not written.answered
    assert flaky.requests[before:].count("PUT") >= 4


def test_a_change_whose_answer_was_lost_is_not_written_again() -> None:
    flaky = Flaky()
    flaky.statuses = [503]
    (written,) = flaky.carry_out(flaky.change())
    assert written.answers == {flaky.app: "repeat"}
    assert flaky.outcomes == ["applied"]


def test_a_rejection_does_not_settle_an_earlier_request() -> None:
    flaky = Flaky()
    flaky.statuses = [503, 400]
    (written,) = flaky.carry_out(flaky.change())
    assert written.answers == {flaky.app: "repeat"}


def test_a_lost_answer_after_answered_writes_causes_no_second_write() -> None:
    flaky = Flaky()
    change = flaky.change()
    flaky.statuses = [None, 503]
    before = Write(domain=change.domain, tick=change.tick - 1, changes=[])
    _, written = flaky.carry_out(before, change)
    assert written.answers == {flaky.app: "repeat"}
    assert flaky.outcomes == ["applied"]


def test_a_rejection_does_not_settle_its_own_request_either() -> None:
    flaky = Flaky()
    flaky.statuses = [400]
    (written,) = flaky.carry_out(flaky.change())
    assert written.answers == {flaky.app: "repeat"}


def test_a_write_waits_for_the_stored_decisions() -> None:
    flaky = Flaky()
    flaky.rejected_reads = 1
    (written,) = flaky.carry_out(flaky.change())
    assert written.answers == {flaky.app: "applied"}


def test_a_rejected_change_that_was_not_made_is_refused() -> None:
    flaky = Flaky()
    flaky.statuses, flaky.makes = [503, 400], False
    (written,) = flaky.carry_out(flaky.change())
    assert written.answers == {flaky.app: "refused"}
    assert "400" in written.detail
    assert flaky.outcomes == []


@pytest.mark.parametrize("status", [408, 425, 429, 503])
def test_a_write_that_the_target_asks_to_send_later_is_sent_again(status: int) -> None:
    flaky = Flaky()
    flaky.statuses, flaky.makes = [status], False
    (written,) = flaky.carry_out(flaky.change())
    assert written.answers == {flaky.app: "applied"}


def test_without_the_stored_decisions_the_outcome_is_unknown() -> None:
    flaky = Flaky()
    change = flaky.change()
    (written,) = asyncio.run(carried_out(answering(404), change, give_up_s=0.1))
    assert isinstance(written, Written)
    assert not written.answered

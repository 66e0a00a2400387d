"""A withdrawn write changes nothing any more, whatever the target answers."""

import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from services.actuator.simulated import SimulatedTarget
from services.actuator.target import Reading, Withdrawal, Write, Written
from tests.service_helpers import DOMAIN
from tests.unit.services.actuator.target_helpers import Flaky, Handle


def test_a_withdrawn_write_is_closed_and_superseded_when_it_arrives_late() -> None:
    flaky = Flaky()
    change = flaky.change()
    withdrawal = Withdrawal(write=change, reason="off")
    found, late = flaky.carry_out(withdrawal, change)
    assert (found.answers, found.detail) == ({flaky.app: "withdrawn"}, "off")
    assert flaky.live.cluster.closed_tick(DOMAIN) == change.tick
    assert late.answers == {flaky.app: "superseded"}
    assert flaky.outcomes == ["superseded"]


def test_a_withdrawal_says_what_was_made_before() -> None:
    flaky = Flaky()
    change = flaky.change()
    _, found = flaky.carry_out(change, Withdrawal(write=change, reason="off"))
    assert found.answers == {flaky.app: "repeat"}


def test_a_withdrawal_is_answered_though_the_tick_is_rejected() -> None:
    flaky = Flaky()
    flaky.statuses, flaky.makes = [409], False
    (found,) = flaky.carry_out(Withdrawal(write=flaky.change(), reason="off"))
    assert found.answers == {flaky.app: "withdrawn"}


def test_a_withdrawal_that_the_target_never_takes_leaves_everything_unknown() -> None:
    flaky = Flaky()
    flaky.statuses, flaky.makes = [401] * 10**4, False
    withdrawal = Withdrawal(write=flaky.change(), reason="off")
    (found,) = flaky.carry_out(withdrawal, give_up_s=0.3)
    assert not found.answered
    assert "401" in found.detail


class SlowWrites:
    """Changes reach the cluster only when they are released; a tick is closed at once."""

    def __init__(self, closing_statuses: list[int | None]) -> None:
        self.flaky = Flaky()
        self.flaky.statuses, self.flaky.makes = closing_statuses, False
        self._released = asyncio.Event()
        self._late: list[asyncio.Future[web.StreamResponse]] = []

    def application(self) -> web.Application:
        @web.middleware
        async def slow(request: web.Request, handler: Handle) -> web.StreamResponse:
            if request.method != "PUT" or not (await request.json())["changes"]:
                return await handler(request)
            # It goes on after its client gave up.
            late = asyncio.ensure_future(self._make_late(request, handler))
            self._late.append(late)
            return await asyncio.shield(late)

        server = self.flaky.application()
        server.middlewares.insert(0, slow)
        return server

    async def _make_late(self, request: web.Request, handler: Handle) -> web.StreamResponse:
        await self._released.wait()
        self.flaky.statuses.clear()  # those are for the closing
        return await handler(request)

    async def write_and_withdraw(self, write: Write) -> Reading | Written:
        """The answer to the withdrawal of a write that is made only afterwards."""
        async with TestServer(self.application()) as running:
            target = SimulatedTarget(str(running.make_url("")), 0.2, 1.0)
            try:
                unanswered = await target.carry_out(write)
                assert isinstance(unanswered, Written)
                assert not unanswered.answered
                assert self._late
                found = await target.carry_out(Withdrawal(write=write, reason="off"))
            finally:
                await target.close()
            self._released.set()
            await asyncio.gather(*self._late)
        return found


@pytest.mark.parametrize("status", [401, 408, 425, 429, 503])
def test_a_late_write_changes_nothing_though_its_withdrawal_was_put_off(status: int) -> None:
    slow = SlowWrites([status])
    change = slow.flaky.change()
    found = asyncio.run(slow.write_and_withdraw(change))
    assert isinstance(found, Written)
    assert found.answers == {slow.flaky.app: "withdrawn"}
    assert set(slow.flaky.outcomes) == {"superseded"}

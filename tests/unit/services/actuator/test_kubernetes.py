"""Faults of an API server, and rights to a workload: nothing is written twice, or where it is not
ours."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from msgspec import structs

from services._kit.kubernetes.client import Answer, KubernetesApi
from services._kit.kubernetes.credentials import Access, Token
from services.actuator.kubernetes import KubernetesTarget
from services.actuator.target import Read, Reading, Withdrawal, Write, Written
from services.actuator.workloads import manager_of
from tests.kubernetes_helpers import (
    NAMESPACE,
    PlayedServer,
    api_of,
    autoscaler,
    deployment,
    losing_the_answer,
    refusing,
    running_loop,
)
from tests.target_suite import raising

APP = f"{NAMESPACE}/web"


class Player(NamedTuple):
    """The played server, and a way to carry out requests on it."""

    server: PlayedServer
    target: KubernetesTarget
    run: Callable[[Any], Any]
    domain: str = "payments"
    app: str = APP

    def read(self, tick: int = 0) -> Reading:
        found: Reading = self.run(self.target.carry_out(Read(domain=self.domain, tick=tick)))
        return found

    def write(self, by: int = 1, tick: int = 0) -> Write:
        apps = self.read(tick).apps
        assert apps is not None
        return raising(self, apps[APP], tick, by)  # type: ignore[arg-type]  # as far as it is used

    def answer(self, write: Write) -> tuple[str, str]:
        found = self.run(self.target.carry_out(write))
        assert isinstance(found, Written)
        return found.answers.get(APP, "none"), found.reasons.get(APP, "")


@pytest.fixture
def player() -> Iterator[Player]:
    with running_loop() as run:
        server = PlayedServer()
        server.create(deployment("web"))
        served = TestServer(server.application())
        run(served.start_server())
        target = KubernetesTarget(api_of(str(served.make_url("")), "secret"), 0.5, 1.5, 4)
        yield Player(server, target, run)
        run(target.close())
        run(served.close())


def test_a_reading_has_numbers_sizes_and_pods(player: Player) -> None:
    player.server.deployments["web"]["status"] = {"replicas": 4, "readyReplicas": 2}
    owner = {"kind": "ReplicaSet", "name": "web-7f9c", "controller": True}
    meta = {
        "name": "web-7f9c-1",
        "namespace": NAMESPACE,
        "labels": {"pod-template-hash": "7f9c"},
        "ownerReferences": [owner],
    }
    player.server.pods = [{"metadata": meta, "status": {"phase": "Pending"}}]
    apps = player.read().apps
    assert apps is not None
    found = apps[APP]
    assert (found.replicas, found.cpu_request, found.memory_request) == (4, 250, 512)
    assert (found.ready, found.starting, found.pending) == (2, 1, 1)


def test_a_size_beyond_all_reason_is_a_number_that_the_rules_can_hold(player: Player) -> None:
    template = player.server.deployments["web"]["spec"]["template"]["spec"]
    template["containers"][0]["resources"]["requests"] = {"cpu": "9000000", "memory": "9Ei"}
    apps = player.read().apps
    assert apps is not None
    sizes = [apps[APP].cpu_request, apps[APP].memory_request]
    assert np.array(sizes, np.int32).tolist() == [2**31 - 1] * 2


def test_a_workload_of_another_domain_is_not_read(player: Player) -> None:
    player.server.create(deployment("ledger", domain="fraud"))
    apps = player.read().apps
    assert apps is not None
    assert apps.keys() == {APP}


def test_a_write_that_was_made_and_not_answered_is_not_made_again(player: Player) -> None:
    write = player.write()
    player.server.faults = [losing_the_answer]
    assert player.answer(write) == ("repeat", "")
    assert len(player.server.patched) == 1


@pytest.mark.parametrize("status", [429, 500, 503, 504, 401, 408, 409])
def test_a_fault_that_passes_is_retried(player: Player, status: int) -> None:
    write = player.write()
    player.server.faults = [refusing(status), refusing(status)]
    assert player.answer(write) == ("applied", "")
    assert player.server.replicas("web") == 5
    assert len(player.server.patched) == 1


def tried(player: Player, write: Write) -> str:
    trial = structs.replace(write, changes=[], trials=write.changes)
    found = player.run(player.target.carry_out(trial))
    assert isinstance(found, Written)
    assert found.answered
    assert found.answers == {}
    return found.trials.get(APP, "")


def test_a_trial_says_whether_the_server_would_take_it_and_makes_nothing(player: Player) -> None:
    assert tried(player, player.write()) == "the API server would take the change"
    assert player.server.tried == ["web"]
    assert player.server.patched == []
    assert player.server.replicas("web") == 4


def test_a_trial_says_why_the_server_would_refuse_it(player: Player) -> None:
    player.server.faults = [refusing(403, "deployments.apps is forbidden")]
    said = "the API server would refuse the change: deployments.apps is forbidden"
    assert tried(player, player.write()) == said


def test_the_same_trial_is_not_repeated_every_tick(player: Player) -> None:
    for tick in range(3):
        assert tried(player, player.write(tick=tick)) == "the API server would take the change"
    assert tried(player, player.write(by=2, tick=3)) == "the API server would take the change"
    assert player.server.tried == ["web", "web"]


def test_a_trial_without_an_answer_says_nothing(player: Player) -> None:
    player.server.faults = [refusing(503)]
    assert tried(player, player.write()) == ""


def test_a_status_update_in_between_costs_a_second_reading_only(player: Player) -> None:
    write = player.write()
    player.server.before_patch = [lambda: player.server.touch("web")] * 2
    assert player.answer(write) == ("applied", "")
    assert len(player.server.patched) == 1


def test_a_number_that_others_set_in_between_is_a_conflict(player: Player) -> None:
    write = player.write()
    player.server.before_patch = [lambda: player.server.scale("web", 9, "kubectl")]
    assert player.answer(write) == ("conflict", "")
    assert player.server.replicas("web") == 9


def test_a_number_that_others_set_and_set_back_is_seen(player: Player) -> None:
    """The patch is made for what is read again, never for what only looks the same."""

    def there_and_back() -> None:
        player.server.scale("web", 9, "kubectl")
        player.server.scale("web", 4, "kubectl")

    write = player.write()
    player.server.before_patch = [there_and_back]
    assert player.answer(write)[0] == "applied"
    assert len(player.server.patched) == 1


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (403, "deployments.apps is forbidden"),
        (422, "ValidatingAdmissionPolicy 'hirl-bounds' denied request"),
        (500, "Internal error occurred: failed calling webhook a.b: refused"),
    ],
)
def test_a_refusal_is_an_answer_with_its_reason(player: Player, status: int, message: str) -> None:
    write = player.write()
    player.server.faults = [refusing(status, message)]
    assert player.answer(write) == ("refused", f"target-refused: {message}")
    assert player.server.replicas("web") == 4


def test_a_server_that_stays_down_leaves_the_write_unanswered(player: Player) -> None:
    write = player.write()
    player.server.faults = [refusing(503)] * 100
    found = player.run(player.target.carry_out(write))
    assert not found.answered
    assert player.server.patched == []


def test_a_withdrawal_waits_for_a_write_that_was_sent_late() -> None:
    """Behind other calls, for example, or after the dry run of a resize."""
    timeout, give_up = 0.5, 1.5
    server = PlayedServer()
    server.create(deployment("web"))

    async def finish(request: web.Request, handler: Any) -> web.StreamResponse:
        if request.method == "PATCH":
            await request.read()
            await asyncio.sleep(0.9 * timeout)
        answer: web.StreamResponse = await handler(request)
        return answer

    @web.middleware
    async def late(request: web.Request, handler: Any) -> web.StreamResponse:
        # It goes on when nobody waits for the answer any more.
        return await asyncio.shield(finish(request, handler))

    class Queued(KubernetesApi):
        async def request(self, method: str, *arguments: Any, **options: Any) -> Answer:
            if method == "PATCH":
                await asyncio.sleep(0.9 * give_up)
            return await super().request(method, *arguments, **options)

    with running_loop() as run:
        application = server.application()
        application.middlewares.append(late)
        served = TestServer(application)
        run(served.start_server())
        access = Access(str(served.make_url("")).rstrip("/"), Token("secret"), None)
        target = KubernetesTarget(Queued(access, 2.0, 1000.0), timeout, give_up, 4)
        player = Player(server, target, run)
        write = player.write()
        assert not run(target.carry_out(write)).answered
        assert server.patched == []
        found = run(target.carry_out(Withdrawal(write=write, reason="paused")))
        assert (found.answers, len(server.patched)) == ({APP: "repeat"}, 1)
        run(target.close())
        run(served.close())


def test_a_deleted_workload_is_unknown(player: Player) -> None:
    write = player.write()
    del player.server.deployments["web"]
    assert player.answer(write) == ("unknown", "")


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (lambda s: s.deployments["web"]["metadata"]["annotations"].clear(), "hold-unmanaged"),
        (
            lambda s: s.create(autoscaler("rival", "web")),
            "hold-second-owner: HorizontalPodAutoscaler rival",
        ),
        (
            lambda s: s.deployments["web"]["metadata"]["annotations"].update(
                {"hirl.dev/paused": "true"}
            ),
            "hold-paused",
        ),
        (
            lambda s: s.deployments["web"]["metadata"].update(deletionTimestamp="2026"),
            "hold-being-deleted",
        ),
    ],
)
def test_a_workload_that_is_not_ours_to_scale_says_so_and_is_left_alone(
    player: Player, prepare: Callable[[PlayedServer], None], reason: str
) -> None:
    prepare(player.server)
    apps = player.read().apps
    assert apps is not None
    assert apps[APP].hold == reason
    assert player.answer(player.write()) == ("refused", reason)
    assert player.server.patched == []


def hold(player: Player) -> str:
    apps = player.read().apps
    assert apps is not None
    return apps[APP].hold


def test_a_program_that_scales_after_us_is_a_second_owner_until_it_is_adopted_again(
    player: Player,
) -> None:
    player.answer(player.write())
    assert hold(player) == ""
    player.server.scale("web", 7, "keda-operator")
    assert hold(player) == "hold-second-owner: keda-operator"
    annotations = player.server.deployments["web"]["metadata"]["annotations"]
    annotations["hirl.dev/managed"] = "false"
    assert hold(player) == "hold-unmanaged"
    annotations["hirl.dev/managed"] = "true"
    assert hold(player) == ""


def test_a_program_that_scaled_before_us_is_history(player: Player) -> None:
    player.server.scale("web", 7, "kube-controller-manager")
    assert hold(player) == ""


@pytest.mark.parametrize("tool", ["kubectl", "kubectl-scale", "oc"])
def test_a_person_who_scales_is_no_second_owner(player: Player, tool: str) -> None:
    player.answer(player.write())
    assert hold(player) == ""
    player.server.scale("web", 7, tool)
    assert hold(player) == ""


@pytest.mark.parametrize("program", ["ocean-autoscaler", "kubectlish"])
def test_a_program_that_is_called_nearly_like_a_persons_tool_is_a_second_owner(
    player: Player, program: str
) -> None:
    player.answer(player.write())
    assert hold(player) == ""
    player.server.scale("web", 7, program)
    assert hold(player) == f"hold-second-owner: {program}"


def test_the_decision_of_an_older_tick_is_superseded(player: Player) -> None:
    newer, older = player.write(tick=7), player.write(tick=6)
    assert player.answer(newer)[0] == "applied"
    assert player.answer(older) == ("superseded", "")
    assert player.server.replicas("web") == 5


def test_the_id_of_the_decision_is_the_id_in_the_audit(player: Player) -> None:
    write = player.write()
    player.answer(write)
    assert player.server.patched == [(write.changes[0].decision_id, "web")]


def test_the_manager_of_a_long_decision_fits_and_stays_distinct() -> None:
    ids = [f"{'d' * 250}/{tick}/1/heuristic/2" for tick in range(100)]
    managers = {manager_of(one) for one in ids}
    assert len(managers) == len(ids)
    assert max(map(len, managers)) <= 128
    assert manager_of("payments/1/2/heuristic/2") == "hirl:payments/1/2/heuristic/2"


def told(player: Player, count: int) -> list[tuple[str, str]]:
    """Reasons and notes of the Events, once there are so many."""

    async def wait() -> None:
        for _ in range(150):
            await asyncio.sleep(0.01)
            if len(player.server.events) >= count:
                return

    player.run(wait())
    return [(one["reason"], one["note"]) for one in player.server.events]


def test_an_event_says_once_what_was_done(player: Player) -> None:
    write = player.write()
    assert player.answer(write)[0] == "applied"
    assert player.answer(write)[0] == "repeat"
    player.run(asyncio.sleep(0.5))
    decision = write.changes[0].decision_id
    assert told(player, 1) == [("Scaled", f"4 -> 5 replicas, decision {decision}")]


def test_an_event_says_what_the_server_refused(player: Player) -> None:
    write = player.write()
    player.server.faults = [refusing(403, "denied by a webhook")]
    assert player.answer(write)[0] == "refused"
    ((reason, note),) = told(player, 1)
    assert reason == "ScalingRefused"
    assert "denied by a webhook" in note


def test_an_event_says_once_who_the_second_owner_is(player: Player) -> None:
    player.server.create(autoscaler("rival", "web"))
    player.read()
    player.read(1)
    player.run(asyncio.sleep(0.5))
    ((reason, note),) = told(player, 1)
    assert reason == "SecondOwner"
    assert "HorizontalPodAutoscaler rival scales it too" in note

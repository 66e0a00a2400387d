"""The view of a cluster outlives objects that are no apps, and never ends in silence."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from models.cluster.description import load_cluster
from services._kit.clock import ManualClock
from services._kit.kubernetes.adoption import DOMAIN, PLACEHOLDER
from services._kit.kubernetes.objects import ObjectMeta, Pod, PodSpec
from services.collector import kubernetes
from services.collector.custom_resources import CustomResources
from services.collector.kubernetes import ClusterView
from tests.kubernetes_helpers import api_of, deployment

Check = Callable[[ClusterView, Counter[str]], Awaitable[None]]


def listed(*items: dict[str, Any]) -> web.Response:
    return web.json_response({"metadata": {"resourceVersion": "10"}, "items": [*items]})


def watched(check: Check, *deployments: dict[str, Any]) -> None:
    """Check a view of an API server that has these Deployments and nothing else."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            await asyncio.sleep(60)
        return listed(*(deployments if request.path.endswith("/deployments") else ()))

    async def run() -> None:
        app = web.Application()
        app.router.add_get("/{path:.*}", answer)
        errors: Counter[str] = Counter()
        async with TestServer(app) as server:
            api = api_of(str(server.make_url("")), "secret")
            count = errors.update
            view = ClusterView(
                api, ManualClock(100.0), lambda name: count([name]), "pool", {}, usage=False
            )
            try:
                await check(view, errors)
            finally:
                await view.close()

    asyncio.run(run())


def named(name: str, **labels: str) -> dict[str, Any]:
    manifest = deployment(name)
    manifest["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": "5"}
    manifest["metadata"]["labels"] |= labels
    return manifest


@pytest.mark.parametrize("odd", [named("odd", **{DOMAIN: ""}), named("n" * 253)])
def test_a_workload_that_can_be_no_app_is_left_out_and_counted(odd: dict[str, Any]) -> None:
    async def check(view: ClusterView, errors: Counter[str]) -> None:
        await view.start()
        declared = view.declared()
        assert declared is not None
        assert [one.app for one in declared] == ["shop/web"]
        assert errors == {"workload": 1}

    watched(check, odd, named("web"))


def test_room_that_the_provisioner_holds_is_free() -> None:
    def pod(**labels: str) -> Pod:
        return Pod(ObjectMeta("pod", labels=labels), PodSpec(node_name="n1"))

    assert kubernetes._named(pod(app="web")) is not None
    assert kubernetes._named(pod(**{PLACEHOLDER: "shared"})) is None


def test_a_mirror_that_ends_at_the_start_ends_the_collector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("a defect")

    monkeypatch.setattr(kubernetes, "app_of", fail)

    async def check(view: ClusterView, _: Counter[str]) -> None:
        with pytest.raises(RuntimeError, match="ended"):
            await view.start()

    watched(check, named("web"))


def test_a_mirror_that_ends_later_ends_the_collector() -> None:
    async def fail() -> None:
        raise KeyError("a defect")

    async def check(view: ClusterView, _: Counter[str]) -> None:
        await view.start()
        view._running.append(asyncio.create_task(fail()))
        await asyncio.wait(view._running[-1:])
        with pytest.raises(RuntimeError, match="ended"):
            await view.samples()

    watched(check, named("web"))


def test_a_server_without_our_resources_works_from_annotations() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path.startswith("/apis/hirl.dev"):
            return web.json_response({"reason": "NotFound"}, status=404)
        if "watch" in request.query:
            await asyncio.sleep(60)
        return listed(*((named("web"),) if request.path.endswith("/deployments") else ()))

    async def run() -> None:
        app = web.Application()
        app.router.add_get("/{path:.*}", answer)
        async with TestServer(app) as server:
            url, clock = str(server.make_url("")), ManualClock(100.0)
            own = CustomResources(api_of(url, "a"), clock, load_cluster(), pytest.fail)
            api = api_of(url, "secret")
            view = ClusterView(api, clock, pytest.fail, "pool", {}, usage=False, own=own)
            try:
                await view.start()
                assert [one.app for one in view.declared() or ()] == ["shop/web"]
                await view.samples()
            finally:
                await view.close()

    asyncio.run(run())

"""The view of a cluster outlives objects that are no apps, and never ends in silence."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from models.cluster.description import load_cluster
from services._kit.clock import ManualClock, rfc3339
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
                assert view.domains == load_cluster().domain_names
            finally:
                await view.close()

    asyncio.run(run())


class Usage:
    """An API server with an app in each of three namespaces, and usage of all pods but `down`'s."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        if path.startswith("/apis/metrics.k8s.io"):
            self.asked.append(path.removeprefix("/apis/metrics.k8s.io/v1beta1/"))
            namespace = path.split("/")[5] if "/namespaces/" in path else ""
            if namespace == "down":
                return web.json_response({}, status=503)
            found = [one for one in ("shop", "bank") if namespace in {"", one}]
            return listed(*(self._usage(one) for one in found))
        if "watch" in request.query:
            await asyncio.sleep(60)
        spaces = ("shop", "bank", "down")
        if path.endswith("/deployments"):
            return listed(*(placed(named(f"web-{one}"), one) for one in spaces))
        if path.endswith("/pods"):
            return listed(*(self._pod(one) for one in spaces), self._pod("other", "nobody"))
        return listed()

    def _pod(self, namespace: str, owner: str = "") -> dict[str, Any]:
        owner = owner or f"web-{namespace}"
        reference = {"kind": "ReplicaSet", "name": f"{owner}-7f9c", "controller": True}
        meta = {
            "name": "pod", "namespace": namespace, "uid": f"pod-{namespace}",
            "labels": {"pod-template-hash": "7f9c"}, "ownerReferences": [reference],
        }  # fmt: skip
        return {"metadata": meta, "spec": {"nodeName": "n1"}}

    def _usage(self, namespace: str) -> dict[str, Any]:
        return {
            "metadata": {"name": "pod", "namespace": namespace},
            "timestamp": rfc3339(100.0),
            "containers": [{"usage": {"cpu": "250m", "memory": "1Gi"}}],
        }


def placed(manifest: dict[str, Any], namespace: str) -> dict[str, Any]:
    manifest["metadata"]["namespace"] = namespace
    return manifest


@pytest.mark.parametrize(
    ("at_once", "asked", "errors"),
    [
        (10, {"pods"}, {}),
        (3, {f"namespaces/{name}/pods" for name in ("shop", "bank", "down")}, {"usage": 1}),
    ],
)
def test_usage_of_many_pods_is_read_by_namespace_and_one_that_fails_is_missing_alone(
    monkeypatch: pytest.MonkeyPatch, at_once: int, asked: set[str], errors: dict[str, int]
) -> None:
    """In one answer it would be more than is read of one."""
    monkeypatch.setattr(kubernetes, "_MOST_AT_ONCE", at_once)

    async def run() -> None:
        played, app = Usage(), web.Application()
        app.router.add_get("/{path:.*}", played.answer)
        failed = Counter[str]()
        async with TestServer(app) as server:
            api = api_of(str(server.make_url("")), "secret")
            view = ClusterView(
                api, ManualClock(100.0), lambda name: failed.update([name]), "pool", {}
            )
            try:
                await view.start()
                found = (await view.samples())["cpu_cores"]
            finally:
                await view.close()
        assert found == {("", "shop/web-shop"): 0.25, ("", "bank/web-bank"): 0.25}
        assert set(played.asked) == asked
        assert failed == errors

    asyncio.run(run())

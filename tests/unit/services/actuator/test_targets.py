"""The suite of every target, on the simulated cluster and on the played API server."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from aiohttp.test_utils import TestServer

from services._kit.handler import Executor
from services.actuator.kubernetes import KubernetesTarget
from services.actuator.simulated import SimulatedTarget
from services.simcluster.http import Api
from tests.kubernetes_helpers import NAMESPACE, PlayedServer, api_of, deployment, running_loop
from tests.service_helpers import DOMAIN
from tests.target_suite import TargetSuite, World
from tests.unit.services.actuator.target_helpers import cluster

Run = Callable[[Awaitable[Any]], Any]


class _Simulated:
    def __init__(self, run: Run) -> None:
        self.run = run
        self._live = cluster()
        self.domain, self.app = DOMAIN, self._live.cluster.names[0]
        self._server = TestServer(Api(self._live, lambda: True).application())
        run(self._server.start_server())
        self._targets: list[SimulatedTarget] = []

    def target(self) -> Executor:
        made = SimulatedTarget(str(self._server.make_url("")), 1.0, 5.0)
        self._targets.append(made)
        return made

    def made(self) -> int:
        return [one.outcome for one in self._live.cluster.journal].count("applied")

    def close(self) -> None:
        for one in self._targets:
            self.run(one.close())
        self.run(self._server.close())


class _Played:
    domain, app = "payments", f"{NAMESPACE}/web"

    def __init__(self, run: Run) -> None:
        self.run = run
        self._played = PlayedServer()
        self._played.create(deployment("web"))
        self._server = TestServer(self._played.application())
        run(self._server.start_server())
        self._targets: list[KubernetesTarget] = []

    def target(self) -> Executor:
        api = api_of(str(self._server.make_url("")), "secret")
        # A short timeout of the server: a withdrawal waits for twice of it.
        made = KubernetesTarget(api, 0.05, 5.0, 4)
        self._targets.append(made)
        return made

    def made(self) -> int:
        return len(self._played.patched)

    def close(self) -> None:
        for one in self._targets:
            self.run(one.close())
        self.run(self._server.close())


class TestSimulatedCluster(TargetSuite):
    @pytest.fixture
    def world(self) -> Iterator[World]:
        with running_loop() as run:
            made = _Simulated(run)
            yield made
            made.close()


class TestPlayedApiServer(TargetSuite):
    @pytest.fixture
    def world(self) -> Iterator[World]:
        with running_loop() as run:
            made = _Played(run)
            yield made
            made.close()

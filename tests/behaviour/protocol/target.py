"""The target in the models: the simulated cluster's real rules on a value, and the real client."""

from collections.abc import Callable, Hashable
from typing import Any, Final, NamedTuple

import msgspec

from services._kit.handler import Executor
from services.actuator import simulated as client
from services.simcluster.http import AppState, Changes, DomainState, Written
from services.simcluster.target import Entry, Numbers, Present, Target
from tests.behaviour.protocol.turns import GIVEN_UP, LOST, REJECTED, Ask, Request

_NEVER_S: Final = 1e9


class Cluster(NamedTuple):
    """Everything that a target knows."""

    apps: tuple[tuple[str, Numbers], ...]
    """What each app has now."""
    closed: tuple[tuple[str, Any], ...] = ()
    stored: tuple[tuple[str, Any], ...] = ()
    """As `Target` keeps them."""
    journal: tuple[Entry, ...] = ()

    @property
    def closed_tick(self) -> int:
        """The newest closed tick; -1 before the first."""
        return max((one.tick for _, one in self.closed), default=-1)

    def with_app(self, app: str, numbers: Numbers) -> "Cluster":
        """The same after another owner has changed an app."""
        return self._replace(apps=tuple(sorted({**dict(self.apps), app: numbers}.items())))


def serve(cluster: Cluster, request: Request, kind: type[Target]) -> tuple[Cluster, bytes]:
    """Answer a request as the HTTP API does."""
    target = kind()
    target.journal = list(cluster.journal)
    target._closed, target._stored = dict(cluster.closed), dict(cluster.stored)
    present = {app: _present(numbers) for app, numbers in cluster.apps}
    domain, *rest = request.path.split("/")[3:]
    if request.method == "GET":
        return cluster, _domain_state(target, domain, present)
    tick, changes = int(rest[-1]), msgspec.json.decode(request.body, type=Changes).changes
    entries = target.write(domain, tick, changes, present, arrived_tick=0)
    answers = {entry.app: entry.outcome for entry in entries}
    written = Written(domain=domain, tick=tick, cluster_tick=0, answers=answers)
    after = Cluster(
        tuple(sorted({**dict(cluster.apps), **target.take()}.items())),
        tuple(sorted(target._closed.items())),
        tuple(sorted(target._stored.items())),
        tuple(target.journal),
    )
    return after, msgspec.json.encode(written)


def _domain_state(target: Target, domain: str, present: dict[str, Present]) -> bytes:
    apps = {
        app: AppState(decision_id=one.decision_id, asked=one.numbers, present=one.present)
        for app, one in target.read_back(present).items()
    }
    closed = target.closed_tick(domain)
    found = DomainState(domain=domain, cluster_tick=0, closed_tick=closed, apps=apps)
    return msgspec.json.encode(found)


def _present(numbers: Numbers) -> Present:
    ready = {"ready": numbers.replicas, "starting": 0, "pending": 0}
    return Present(**msgspec.structs.asdict(numbers), **ready)


class Client(client.SimulatedTarget):
    """The actuator's client, with the world in place of HTTP."""

    def __init__(self, ask: Ask, remembered: Hashable) -> None:
        super().__init__("http://target", _NEVER_S, _NEVER_S)
        self._ask = ask
        if remembered is not None:
            assert isinstance(remembered, frozenset)
            self._all_answered = set(remembered)

    def remembers(self) -> Hashable:
        return frozenset(self._all_answered)

    async def _request(self, method: str, path: str, body: bytes) -> bytes:
        answer = self._ask(Request(method, path, body))
        if answer == LOST:
            raise client._Unreachable("no answer")
        if answer == GIVEN_UP:
            raise TimeoutError
        if answer == REJECTED:
            raise client._Rejected("400 bad request")
        assert isinstance(answer, bytes)
        return answer


def clients_of(
    kind: type[Client],
) -> Callable[[Ask, Hashable], tuple[Executor, Callable[[], Hashable]]]:
    """See `process.Clients`."""

    def clients(ask: Ask, remembered: Hashable) -> tuple[Executor, Callable[[], Hashable]]:
        made = kind(ask, remembered)
        return made, made.remembers

    return clients

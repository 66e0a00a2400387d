"""ScalingDomains become the domains of the services, all of them or none."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from models.cluster.description import load_cluster
from services._kit.clock import ManualClock
from services._kit.errors import BadSettings
from services._kit.inventory import cluster_of
from services._kit.kubernetes.client import Answer
from services.collector.domains import KEY, DomainStore, compose
from services.collector.profiles import ScalingDomain

FILE = load_cluster()
POOL = FILE.pool_names[0]


def resource(name: str, **spec: Any) -> ScalingDomain:
    given = {"priority": "P1", "floorShare": 0.1, "pools": [POOL], **spec}
    return msgspec.convert({"metadata": {"name": name}, "spec": given}, ScalingDomain)


def test_without_resources_the_file_counts() -> None:
    assert compose(FILE, []) == (FILE, "", {})


def test_they_are_all_domains_in_the_order_of_the_file_and_keep_what_they_leave_out() -> None:
    known = FILE.domains[1]
    found = compose(FILE, [resource("new"), resource(known.name), resource(FILE.domains[0].name)])
    assert found.cluster.domain_names == (*FILE.domain_names[:2], "new")
    kept = found.cluster.domains[1]
    assert (kept.tiers, kept.slo, kept.title) == (known.tiers, known.slo, known.title)
    assert (kept.priority, kept.floor_share, kept.pools) == ("P1", 0.1, (POOL,))
    assert found.cluster.domains[2].tiers == ("apps",)
    # Calls to domains that are gone would be no description of a cluster.
    left = set(found.cluster.domain_names)
    assert all({call.caller, call.callee} <= left for call in found.cluster.calls)


def test_a_domain_survives_what_its_resource_or_the_file_says() -> None:
    first = msgspec.structs.replace(FILE.domains[0], survive="zone")
    file = msgspec.structs.replace(FILE, domains=(first, *FILE.domains[1:]))
    for spec, survives in (({}, "zone"), ({"survive": "none"}, "none")):
        found = compose(file, [resource(first.name, **spec)]).cluster
        assert found.domains[0].survive == survives


def test_what_is_written_is_what_services_read(tmp_path: Path) -> None:
    found = compose(FILE, [resource("new", slo={"kind": "throughput", "latencyTargetMs": 90})])
    file = tmp_path / KEY
    assert cluster_of("", str(file)) == FILE
    file.write_text(found.text)
    assert cluster_of("", str(file)) == found.cluster
    assert found.cluster.domains[0].slo.latency_target_ms == 90
    file.write_text("domains: [{name: a}]")
    with pytest.raises(BadSettings, match="priority"):
        cluster_of("", str(file))
    file.write_text(found.text.replace(POOL, "elsewhere"))
    with pytest.raises(BadSettings, match="got elsewhere"):
        cluster_of("", str(file))


@pytest.mark.parametrize(
    ("resources", "refused", "words"),
    [
        ([resource("a"), resource("b", pools=["nowhere"])], {"b"}, "got nowhere"),
        ([resource("a"), resource("b", tiers=["Web Tier"])], {"b"}, "tiers"),
        ([resource("a", floorShare=0.6), resource("b", floorShare=0.6)], {"a", "b"}, "got 1.2"),
    ],
)
def test_one_that_is_refused_keeps_all_as_they_are(
    resources: list[ScalingDomain], refused: set[str], words: str
) -> None:
    found = compose(FILE, resources)
    assert found.refused.keys() == refused
    assert found.text == ""
    for verdict in found.refused.values():
        assert not verdict.accepted
        assert words in verdict.message


class PlayedConfigMap:
    """The API server, as far as it has one ConfigMap."""

    def __init__(self, data: dict[str, str] | None) -> None:
        self.data: dict[str, Any] | None = data
        self.writes = 0

    async def get(self, path: str, kind: Any) -> Any:
        assert path == "/api/v1/namespaces/hirl/configmaps/hirl-domains"
        return None if self.data is None else kind(data=self.data)

    async def request(self, method: str, path: str, query: Any, body: bytes, _: Any) -> Answer:
        assert (method, query) == ("PATCH", {"fieldManager": "hirl-collector"})
        assert path.endswith("/hirl-domains")
        self.writes += 1
        self.data = msgspec.json.decode(body)["data"]
        return Answer(200, b"{}")


def store_of(data: dict[str, str] | None) -> tuple[PlayedConfigMap, ManualClock, DomainStore]:
    server, clock = PlayedConfigMap(data), ManualClock(1000.0)
    store = DomainStore(server, clock, "hirl/hirl-domains")  # type: ignore[arg-type]
    asyncio.run(store.read())
    return server, clock, store


def test_it_is_stored_once_and_only_when_it_rests() -> None:
    server, clock, store = store_of({})
    first, second = (compose(FILE, [resource(name)]).text for name in ("a", "b"))
    for after, text, writes in ((0, first, 0), (20, first, 0), (20, second, 0), (29, second, 0)):
        clock.advance(after)
        assert asyncio.run(store.store(text)) == ""
        assert server.writes == writes
    clock.advance(2)
    for _ in range(3):
        assert asyncio.run(store.store(second)) == ""
    assert (server.writes, server.data) == (1, {KEY: second})
    assert store.cluster(FILE).domain_names == ("b",)
    # Whoever deletes all of them goes back to the file.
    for _ in range(2):
        asyncio.run(store.store(""))
        clock.advance(31)
    assert server.data == {KEY: None}
    assert store.cluster(FILE) == FILE


def test_a_restart_writes_nothing_that_is_there_already() -> None:
    text = compose(FILE, [resource("a")]).text
    server, clock, store = store_of({KEY: text})
    clock.advance(100)
    assert asyncio.run(store.store(text)) == ""
    assert (server.writes, store.cluster(FILE).domain_names) == (0, ("a",))


def test_without_the_config_map_nothing_is_stored() -> None:
    server, clock, store = store_of(None)
    for _ in range(2):
        asyncio.run(store.store("domains: []"))
        clock.advance(100)
    assert (server.writes, store.text) == (0, None)


def test_what_is_not_understood_does_not_stop_the_collector() -> None:
    for text in ("{", "domains: 3", "domains: []"):
        _, _, store = store_of({KEY: text})
        assert store.cluster(FILE) == FILE


def test_what_others_made_of_it_is_seen_within_a_minute_and_written_again() -> None:
    text = compose(FILE, [resource("a")]).text
    server, clock, store = store_of({KEY: text})

    def go_on() -> None:
        for _ in range(4):
            clock.advance(30.0)
            assert asyncio.run(store.store(text)) == ""

    for changed in ({}, {KEY: "domains: []"}):
        server.data = dict(changed)
        go_on()
        assert server.data == {KEY: text}
    server.data = None
    go_on()
    assert (store.text, server.data) == (None, None)
    server.data = {}
    go_on()
    assert (store.text, server.data) == (text, {KEY: text})

"""The newest request of a pool stands until it is replaced or expires, whatever dies."""

from typing import Any

import pytest
from msgspec.structs import replace

from models.cluster.description import Cluster
from schemas.capacity_requested import CapacityRequested, NodesByUrgency
from schemas.pool_observed import PoolObserved
from services._kit.clock import ManualClock
from services._kit.handler import Service
from services._kit.memory import MemoryBus
from services.provisioner.capacity import Held, Hold
from services.provisioner.decide import ProvisionerHandler
from tests.service_helpers import CLUSTER, pools, time_of

POOL = CLUSTER.pool_names[0]
RECONCILE_S = 5.0
VALID = 6


class Room:
    """Takes every request."""

    def __init__(self) -> None:
        self.asked: list[Hold] = []

    async def carry_out(self, request: Any) -> Held:
        self.asked.append(request)
        return Held(pools={})

    def nodes(self) -> int | None:
        """What the pool was to have at last; None if nothing was asked since."""
        found = self.asked[-1].pools[POOL].nodes if self.asked else None
        self.asked.clear()
        return found


class System:
    def __init__(self, cluster: Cluster = CLUSTER) -> None:
        self.clock, self.room = ManualClock(1000.0), Room()
        self.bus = MemoryBus(self.clock)
        self.bus.add(lambda: Service(ProvisionerHandler(cluster, 1000, RECONCILE_S), self.room))
        self.observe(0)

    def observe(self, tick: int, ready: int = 4, cores: float = 8.0) -> None:
        seen = [one for one in pools(tick) if isinstance(one, PoolObserved)]
        counts = {"ready": ready, "booting": 0, "requested": 0, "quota": 50, "node_cores": cores}
        self.bus.publish(*(replace(one, **counts) for one in seen))
        self.bus.run()

    def request(self, tick: int, nodes: int, /, epoch: int = 0, **changes: Any) -> int | None:
        plain = CapacityRequested(
            tick=tick, time=time_of(tick), pool=POOL, epoch=epoch, valid_until_tick=tick + VALID,
            nodes=NodesByUrgency(critical=nodes),
        )  # fmt: skip
        self.bus.publish(replace(plain, **changes))
        self.bus.run()
        return self.room.nodes()

    def rejected(self) -> list[str]:
        return [one.error for one in self.bus.dead_letters]


def test_a_request_is_kept_and_compared_again_and_again() -> None:
    system = System()
    assert system.request(0, 3) == 7
    # What the pools have meanwhile changes nothing of what was asked for.
    system.observe(1, ready=7)
    system.bus.advance(RECONCILE_S)
    assert system.room.nodes() == 7


def test_an_older_or_repeated_request_changes_nothing() -> None:
    system = System()
    assert system.request(6, 3, epoch=2) == 7
    assert system.request(6, 9, epoch=2) is None
    assert system.request(0, 9, epoch=9) is None
    system.observe(6, ready=5)
    assert system.request(6, 3, epoch=3) == 8


def test_a_restart_leaves_the_request_standing() -> None:
    system = System()
    system.request(0, 3)
    system.bus.kill("provisioner")
    system.observe(1, ready=6)
    system.bus.start("provisioner")
    system.bus.run()
    assert system.room.nodes() == 7


def test_it_lets_go_when_the_validity_ends_in_events_or_by_the_clock() -> None:
    for silent in (False, True):
        system = System()
        assert system.request(0, 3) == 7
        if silent:
            system.bus.advance((VALID + 1) * CLUSTER.tick_seconds + RECONCILE_S)
        else:
            system.observe(VALID + 1)
            system.bus.advance(RECONCILE_S)
        assert system.room.nodes() == 0


def test_one_pool_that_claims_a_far_tick_does_not_end_the_requests() -> None:
    system = System()
    assert system.request(0, 3) == 7
    wrong = next(one for one in pools(8000) if isinstance(one, PoolObserved) and one.pool != POOL)
    system.bus.publish(wrong)
    system.bus.run()
    system.bus.advance(RECONCILE_S)
    assert system.room.nodes() == 7


def test_the_first_node_of_a_pool_is_of_the_size_in_the_cluster_file() -> None:
    machine = CLUSTER.machine_of(CLUSTER.pools[0])
    described = round(1000 * (machine.cpu_cores - machine.reserved_cpu_cores))
    system = System()
    system.observe(1, ready=0, cores=0.0)
    assert system.request(1, 2) == 2
    sizes = []
    for ready, cores in ((0, 0.0), (1, 6.0), (0, 0.0)):
        system.observe(2, ready, cores)
        system.bus.advance(RECONCILE_S)
        sizes.append(system.room.asked[-1].pools[POOL].node_cpu)
    # Once there was a node, what it had counts.
    assert sizes == [described, 6000, 6000]


def test_chunks_keep_their_size_while_nodes_hardly_differ_or_are_gone() -> None:
    """A new size replaces all chunks at once, and so gives up the room that they hold."""
    system = System()
    system.request(0, 3)
    sizes = []
    for ready, cores in ((5, 8.3), (0, 0.0), (4, 12.0)):
        system.observe(1, ready, cores)
        system.bus.kill("provisioner")
        system.bus.start("provisioner")
        system.bus.advance(RECONCILE_S)
        sizes.append(system.room.asked[-1].pools[POOL].node_cpu)
    assert sizes == [8000, 8000, 12000]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"pool": "invented"}, "unknown-pool"),
        ({"tick": 1000, "valid_until_tick": 1006}, "future"),
        ({"valid_until_tick": 10**6}, "validity"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(changes: dict[str, Any], error: str) -> None:
    system = System()
    assert system.request(0, 3, **changes) is None
    assert system.rejected() == [error]


def test_nothing_is_held_for_a_pool_that_nobody_observed() -> None:
    system = System()
    system.bus.put("hirl.pool-observed.v1", POOL.encode(), None)
    assert system.request(0, 3) is None
    assert system.rejected() == ["pool-unknown"]

"""The played cloud starts what is asked for, within quotas, and removes what nobody needs."""

from models.sim.config.physics import Provisioner
from schemas.capacity_requested import CapacityRequested, NodesByUrgency
from services.lab.world.nodes import NodePools, Pool, Sizes, Waiting

PHYSICS = Provisioner(
    requests_per_second=100, launches_per_second=100, boot_s=30, boot_contention=0.0,
    contention_half=1, scale_down_after_s=120,
)  # fmt: skip
POOLS = (Pool("own", 4000, 8000, 4), Pool("shared", 4000, 8000, 9))
POD = Waiting(("own", "shared"), 1000, 1000)


def cloud(**counts: int) -> NodePools:
    made = NodePools(POOLS, PHYSICS, tick_s=10)
    for pool in POOLS:
        made.launch(pool, counts.get(pool.name, 0), 0, at_once=True)
    return made


def request(tick: int, nodes: int = 0, keep: int = 0, valid: int = 60) -> CapacityRequested:
    return CapacityRequested(
        tick=tick, time="2026-01-05T00:00:00Z", pool="own", epoch=tick,
        valid_until_tick=tick + valid, nodes=NodesByUrgency(critical=nodes), min_nodes=keep,
    )  # fmt: skip


def sizes(made: NodePools) -> dict[str, int]:
    return {pool.name: sum(n.pool == pool.name for n in made.nodes.values()) for pool in POOLS}


def test_pending_pods_get_as_many_nodes_as_hold_them_once() -> None:
    made = cloud()
    for tick in range(3):
        assert not made.step(tick, [POD] * 6, {}, {}).ready
        assert sizes(made) == {"own": 2, "shared": 0}
    assert len(made.step(3, [POD] * 6, {}, {}).ready) == 2


def test_beyond_the_quota_pods_wait_for_the_next_pool() -> None:
    made = cloud(own=4)
    made.step(0, [POD] * 5, {}, {})
    assert sizes(made) == {"own": 4, "shared": 2}


def test_a_request_is_launched_once_and_silences_pending_pods_while_it_is_valid() -> None:
    made = cloud()
    for tick in range(2):
        made.step(tick, [POD] * 9, {"own": request(0, nodes=1, valid=1)}, {})
    assert sizes(made)["own"] == 1
    made.step(2, [POD] * 9, {"own": request(0, nodes=1, valid=1)}, {})
    assert sizes(made)["own"] == 3
    made.step(3, [], {"own": request(3, nodes=1)}, {})
    assert sizes(made)["own"] == 4


def shrunk(placed: Sizes, **options: int) -> list[str]:
    made = cloud(own=3)
    requests = {"own": request(0, **options)}
    removed = [n.name for t in range(40) for n in made.step(t, [], requests, placed).removed]
    assert len(removed) + sizes(made)["own"] == 3
    return removed


def test_an_underused_node_goes_when_its_pods_fit_on_the_others() -> None:
    busy = [(1000, 2000)] * 3
    placed = {"own-0001": busy, "own-0002": [(1000, 2000)], "own-0003": busy}
    assert shrunk(placed) == ["own-0002"]
    assert shrunk(placed, keep=3) == []


def test_a_node_stays_whose_pods_fit_nowhere_else() -> None:
    busy = [(1000, 2000)] * 3
    assert shrunk({"own-0001": busy, "own-0002": [(1500, 2000)], "own-0003": busy}) == []

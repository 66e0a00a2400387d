"""Requests of all pools are cut in the order of their urgency, never beyond a limit."""

from hypothesis import given
from hypothesis import strategies as st

from schemas.capacity_requested import CapacityRequested, NodesByUrgency
from schemas.pool_observed import PoolObserved
from services.provisioner.targets import Limits, Standing, targets
from tests.service_helpers import time_of

FREE = Limits(1000, 1e9)
COUNTS = st.integers(0, 30)


def pool(name: str, ready: int = 4, quota: int = 20, price: float = 1.0) -> PoolObserved:
    return PoolObserved(
        tick=0, time=time_of(0), pool=name, ready=ready, booting=0, quota=quota, free_cores=0.0,
        free_memory_gib=0.0, node_cores=8.0, node_memory_gib=32.0, price_per_hour=price,
    )  # fmt: skip


def standing(name: str, keep: int = 0, existing: int = 4, **nodes: int) -> Standing:
    request = CapacityRequested(
        tick=0, time=time_of(0), pool=name, epoch=0, valid_until_tick=6,
        nodes=NodesByUrgency(**nodes), min_nodes=keep,
    )  # fmt: skip
    return Standing(request, existing, expires_at=70.0)


def nodes(
    requests: list[Standing], limits: Limits = FREE, tick: int = 0, now: float = 0.0
) -> dict[str, int]:
    by_name = {one.request.pool: one for one in requests}
    pools = {name: pool(name) for name in ("a", "b")}
    return {k: v.nodes for k, v in targets(by_name, pools, limits, tick, now).items()}


def test_nodes_come_on_top_of_those_that_were_there() -> None:
    assert nodes([standing("a", critical=2, spare=1), standing("b", keep=3)]) == {"a": 7, "b": 3}


def test_without_additions_only_the_minimum_is_kept() -> None:
    assert nodes([standing("a"), standing("b", keep=2)]) == {"a": 0, "b": 2}


def test_the_rate_goes_to_the_most_urgent_of_all_pools() -> None:
    requests = [standing("a", spare=5, essential=1), standing("b", critical=3)]
    assert nodes(requests, Limits(5, 1e9)) == {"a": 6, "b": 7}


def test_the_spend_cap_and_the_quota_cut_and_say_so() -> None:
    pools = {"a": pool("a", quota=6), "b": pool("b", price=2.0)}
    found = targets(
        {"a": standing("a", critical=5), "b": standing("b", critical=5)},
        pools,
        Limits(1000, 18.0),
        0,
        0.0,
    )
    assert (found["a"].nodes, found["a"].cut) == (6, {"quota": 3})
    # 4 nodes at 1 and 4 at 2 are there, 2 at 1 were granted: 4 of 18 are left.
    assert (found["b"].nodes, found["b"].cut) == (6, {"spend-cap": 3})


def test_nodes_that_a_request_has_made_do_not_use_up_its_spend_cap() -> None:
    request = {"a": standing("a", keep=4, existing=4, critical=4)}
    for ready in (4, 6, 8):
        found = targets(request, {"a": pool("a", ready=ready)}, Limits(1000, 9.0), 3, 0.0)
        assert found["a"].nodes == 8, f"{ready} ready"


def test_a_request_stands_for_its_validity_in_events_and_in_wall_time() -> None:
    requests = [standing("a", critical=1)]
    assert nodes(requests, tick=6, now=70.0)["a"] == 5
    assert nodes(requests, tick=7)["a"] == 0
    assert nodes(requests, now=70.1)["a"] == 0


@given(
    st.lists(st.tuples(COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS), min_size=2, max_size=2),
    COUNTS,
    st.floats(0, 100),
)
def test_no_limit_is_exceeded(wanted: list[tuple[int, ...]], per_minute: int, cap: float) -> None:
    pools = {"a": pool("a"), "b": pool("b", price=2.5)}
    requests = {
        name: standing(name, keep, existing, critical=c, essential=e, comfort=f, spare=s)
        for name, (keep, existing, c, e, f, s) in zip(pools, wanted, strict=True)
    }
    found = targets(requests, pools, Limits(per_minute, cap), 0, 0.0)
    added = {
        name: max(0, found[name].nodes - max(one.existing, one.request.min_nodes))
        for name, one in requests.items()
    }
    assert all(found[name].nodes <= pools[name].quota for name in pools)
    assert sum(added.values()) <= per_minute
    price = {name: one.price_per_hour for name, one in pools.items()}
    before = sum(price[name] * one.existing for name, one in requests.items())
    # What a pool keeps anyway, even beyond what it had, is not added.
    more = sum(
        price[name] * (found[name].nodes - one.existing)
        for name, one in requests.items()
        if added[name]
    )
    assert before + more <= max(cap, before) + 1e-9

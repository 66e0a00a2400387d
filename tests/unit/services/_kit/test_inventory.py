import msgspec
import pytest

from schemas.pool_observed import PoolObserved
from services._kit.errors import Refused
from services._kit.inventory import DeclaredApps, ObservedPools
from tests.service_helpers import APPS, CLUSTER, declared, pools


def test_the_version_rises_only_when_a_declaration_changes() -> None:
    apps = DeclaredApps(CLUSTER)
    apps.learn(declared())
    first = apps.version
    apps.learn(declared())
    assert apps.version == first
    apps.learn(declared(max_replicas=9))
    assert apps.version > first


def test_a_removal_that_is_repeated_changes_nothing() -> None:
    apps = DeclaredApps(CLUSTER)
    apps.learn(declared())
    apps.learn(declared(removed=True))
    first = apps.version
    apps.learn(declared(removed=True))
    assert apps.version == first
    apps.learn(declared())
    apps.learn(declared(removed=True))
    assert apps.version == first + 2
    assert apps.all_apps() == ()


def test_no_number_of_replicas_exceeds_a_maximum_that_is_not_declared() -> None:
    apps = DeclaredApps(CLUSTER)
    apps.learn(declared(max_replicas=None))
    assert apps.inventory_of(APPS[:1]).max_replicas.tolist() == [2**31 - 1]


def test_the_last_declaration_of_recently_removed_apps_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("services._kit.inventory._REMOVED_KEPT", 2)
    apps = DeclaredApps(CLUSTER)
    for app in APPS:
        apps.learn(declared(app, max_replicas=7))
        apps.forget(app)
    assert apps.all_apps() == ()
    assert apps.all_declared(APPS[1:])
    assert apps.inventory_of(APPS[1:]).max_replicas.tolist() == [7, 7]
    assert not apps.all_declared(APPS)
    with pytest.raises(Refused, match=f"unknown-app: .* got {APPS[0]}"):
        apps.inventory_of(APPS)


def observed(tick: int, **changes: int) -> PoolObserved:
    first = pools(0)[0]
    assert isinstance(first, PoolObserved)
    return msgspec.structs.replace(first, tick=tick, **changes)


def test_a_pool_from_the_far_future_gives_way_to_the_next_true_observation() -> None:
    known = ObservedPools(CLUSTER.pool_names)
    for one in (observed(2**31 - 1, ready=1), observed(7, ready=70), observed(6, ready=60)):
        known.learn(one)
    assert known.records(7)["ready"][0, 0] == 70, "the last one is only late"


def test_an_old_observation_of_a_pool_that_is_repeated_changes_nothing() -> None:
    known = ObservedPools(CLUSTER.pool_names)
    for one in (observed(1000, ready=70), observed(7, ready=1)):
        known.learn(one)
    assert known.records(1000)["ready"][0, 0] == 70


def test_a_pool_that_was_observed_only_later_counts_as_it_is_now() -> None:
    known = ObservedPools(CLUSTER.pool_names)
    known.learn(observed(1000, ready=70))
    assert known.records(7)["ready"][0, 0] == 70


def test_no_number_of_nodes_overflows() -> None:
    known, most = ObservedPools(CLUSTER.pool_names), 2**31 - 1
    known.learn(observed(0, ready=most, booting=most, requested=most, quota=most))
    assert known.records(0)[0, 0].tolist()[1] == most


def test_pools_that_the_cluster_file_lacks_are_not_kept() -> None:
    known = ObservedPools(CLUSTER.pool_names)
    known.learn(msgspec.structs.replace(observed(0), pool="forged"))
    assert "forged" not in known._observed

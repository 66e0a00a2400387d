import pytest

from services._kit.errors import Refused
from services._kit.inventory import DeclaredApps
from tests.service_helpers import APPS, CLUSTER, declared


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

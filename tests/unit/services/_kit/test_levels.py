"""What the breakers let decide at most, as learned from the bus."""

from typing import Any

import pytest

from models.control.fallback import Level
from services._kit.levels import Levels, versions_at
from tests.service_helpers import DOMAIN, heartbeat


def said(*words: tuple[int, Any], scope: str = DOMAIN) -> Levels:
    """Levels after some heartbeats of a scope, in this order."""
    levels = Levels([DOMAIN])
    for tick, level in words:
        levels.learn(heartbeat(tick, level=level, scope=scope))
    return levels


def test_a_decision_uses_the_level_published_before_its_tick() -> None:
    levels = said((4, "policy"), (5, "reactive"), (6, "policy"))
    assert levels.before(5, DOMAIN) == Level.POLICY
    assert levels.before(6, DOMAIN) == Level.REACTIVE
    assert levels.before(7, DOMAIN) == Level.POLICY


def test_of_domain_and_cluster_the_lower_level_counts() -> None:
    levels = said((4, "heuristic"))
    levels.learn(heartbeat(4, level="reactive", scope="cluster"))
    assert levels.before(5, DOMAIN) == Level.REACTIVE
    assert levels.before(5, "elsewhere") == Level.REACTIVE
    levels.forget("cluster")
    assert levels.before(5, DOMAIN) == Level.HEURISTIC
    assert levels.before(5, "elsewhere") == Level.POLICY


def test_without_a_heartbeat_everything_may_decide() -> None:
    assert Levels([DOMAIN]).before(5, DOMAIN) == Level.POLICY


@pytest.mark.parametrize("level", ["policy", "reactive"])
def test_a_breaker_that_stops_publishing_keeps_its_last_level(level: str) -> None:
    assert said((3, "heuristic"), (4, level)).before(10_000, DOMAIN).label == level


def test_after_a_restart_a_level_of_the_same_tick_or_a_little_later_counts() -> None:
    for tick in (5, 8):
        assert said((tick, "reactive")).before(5, DOMAIN) == Level.REACTIVE


def test_a_level_from_the_far_future_is_ignored_and_hides_no_other() -> None:
    levels = said((10**9, "hold"))
    assert levels.before(5, DOMAIN) == Level.POLICY
    for tick in range(20):
        levels.learn(heartbeat(tick, level="heuristic"))
        assert levels.before(tick + 1, DOMAIN) == Level.HEURISTIC
        levels.learn(heartbeat(10**9 + tick, level="hold"))
        assert levels.before(tick + 1, DOMAIN) == Level.HEURISTIC


def test_of_two_events_of_one_tick_the_lower_level_counts() -> None:
    for words in (((4, "reactive"), (4, "policy")), ((4, "policy"), (4, "reactive"))):
        assert said(*words).before(5, DOMAIN) == Level.REACTIVE


def test_a_late_level_changes_no_newer_one() -> None:
    assert said((8, "reactive"), (4, "policy")).before(9, DOMAIN) == Level.REACTIVE


def test_a_decision_records_its_level_where_it_is_limited() -> None:
    assert "level" not in versions_at(Level.POLICY)
    assert versions_at(Level.REACTIVE)["level"] == "reactive"


def test_breakers_of_scopes_that_do_not_exist_leave_nothing_behind() -> None:
    levels = said((4, "hold"), scope="forged")
    assert not levels._levels

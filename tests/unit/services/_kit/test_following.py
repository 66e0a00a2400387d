"""A follower opens what is ordered, and does not fetch again what is open."""

from dataclasses import replace
from typing import Any

from models.registry.rollout import Ref, Rollout, Rules, Sample, Stage
from schemas.model_promoted import ModelPromoted
from services._kit.following import Follower
from services._kit.models import LoadedModel

NEW = "a" * 64


OLD = Ref("commander/b", "b" * 64)
FIRST = "2026-11-20T14:00:00Z/promoted/" + NEW


def order(number: int, **more: Any) -> ModelPromoted:
    fields: dict[str, Any] = {
        "model": "commander",
        "version": "commander/a",
        "sha256": NEW,
        "promoted_at": f"2026-11-20T14:00:{number:02}Z",
        "unlock": True,
    }
    return ModelPromoted(**(fields | more))


def followed(before: Rollout, *orders: ModelPromoted) -> tuple[Rollout, list[str]]:
    """What a service that was away makes of the orders that it reads when it starts."""
    follower: Follower[str] = Follower("commander", "cluster", Rules())
    for one in orders:
        follower.learn(one)
    rollout, events, _ = follower.follow(before, 7)
    assert follower.follow(rollout, 8)[:2] == (rollout, [])
    return rollout, [f"{one.phase} {one.version}" for one in events]


def test_a_service_that_was_away_obeys_a_return_though_something_was_promoted_since() -> None:
    serving = Rollout(order=FIRST, incumbent=Ref("commander/a", NEW), previous=OLD)
    back = order(1, version=OLD.name, sha256=OLD.sha256, status="rolled-back")
    third = order(2, version="commander/c", sha256="c" * 64, unlock=False)
    # As well if the topic has lost the order that it knows.
    for orders in ((order(0), back, third), (back, third)):
        rollout, phases = followed(serving, *orders)
        assert rollout.incumbent == OLD
        assert rollout.candidate == Ref("commander/c", "c" * 64)
        assert phases == ["rolled-back commander/a", "loading commander/c"]


def test_a_service_that_was_away_ends_a_lock_though_rules_were_changed_since() -> None:
    locked = Rollout(order=FIRST, incumbent=OLD, locked_until=100)
    base: dict[str, Any] = {"version": OLD.name, "sha256": OLD.sha256}
    rollout, phases = followed(locked, order(0), order(1, **base), order(2, **base, unlock=False))
    assert (rollout.locked_until, phases) == (-1, [])


def test_a_scope_without_a_past_obeys_the_newest_order_only() -> None:
    rollout, phases = followed(Rollout(), order(0), order(1, version="c", sha256="c" * 64))
    assert (rollout.candidate, phases) == (Ref("c", "c" * 64), ["loading c"])


def test_what_was_obeyed_before_a_restart_is_not_obeyed_again() -> None:
    orders = (order(0), order(1, version=OLD.name, sha256=OLD.sha256, status="rolled-back"))
    rollout, _ = followed(Rollout(order=FIRST, incumbent=Ref("commander/a", NEW)), *orders)
    again = replace(rollout, incumbent=Ref("commander/a", NEW))
    assert followed(again, *orders) == (again, [])


def test_a_version_that_was_taken_back_and_is_still_open_can_be_promoted_again() -> None:
    follower: Follower[str] = Follower("commander", "cluster", Rules())
    follower.learn(order(0))
    rollout, _, missing = follower.follow(Rollout(), 0)
    assert missing is not None
    rollout, _ = follower.opened(LoadedModel(missing.ref, "a policy"), rollout, 0)
    rollout, _ = follower.judge(rollout, Sample("no number"), "", 1, "2026-11-20T14:00:10Z")
    assert rollout.candidate is None
    follower.learn(order(1))
    rollout, events, missing = follower.follow(rollout, 2)
    assert missing is None
    assert rollout.stage == Stage.SHADOW
    assert [one.phase for one in events] == ["loading", "shadow"]

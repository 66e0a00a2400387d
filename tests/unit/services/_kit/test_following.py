"""A follower opens what is ordered, and does not fetch again what is open."""

from models.registry.rollout import Rollout, Rules, Sample, Stage
from schemas.model_promoted import ModelPromoted
from services._kit.following import Follower
from services._kit.models import LoadedModel

NEW = "a" * 64


def order(number: int) -> ModelPromoted:
    return ModelPromoted(
        model="commander",
        version="commander/a",
        sha256=NEW,
        promoted_at=f"2026-11-20T14:00:{number:02}Z",
        unlock=True,
    )


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

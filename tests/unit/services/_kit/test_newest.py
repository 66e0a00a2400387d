"""What is kept of events whose ticks are not checked yet."""

from services._kit.newest import Newest


def kept_of(*ticks: int) -> Newest[int]:
    kept = Newest[int](lambda one: one, lambda one: one, near=6)
    for tick in ticks:
        kept.learn("a", tick)
    return kept


def test_an_item_of_the_far_future_hides_none_before_it() -> None:
    kept = kept_of(10, 1_000_000, 11)
    assert kept.upto("a", 17) == 11
    assert dict(kept.all_upto(17)) == {"a": 11}
    assert kept.upto("a", 1_000_000) == 1_000_000


def test_a_late_item_changes_nothing() -> None:
    assert kept_of(12, 10).upto("a", 17) == 12


def test_nothing_is_believed_where_all_is_beyond_the_tick() -> None:
    kept = kept_of(1_000_000)
    assert kept.upto("a", 17) is None
    assert "a" in kept


def test_a_flood_of_ticks_leaves_the_one_that_repeats_itself() -> None:
    kept = kept_of(10)
    for number in range(100):
        kept.learn("a", 1_000 * (number + 1))
        kept.learn("a", 11)
    assert kept.upto("a", 17) == 11
    assert kept.last_received("a") == 11

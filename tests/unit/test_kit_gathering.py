from services._kit.gathering import Gathering

BOTH = frozenset({"a", "b"})
GRACE_S = 2.0


def test_a_tick_is_ready_when_all_of_it_is_there() -> None:
    gathering: Gathering[str] = Gathering()
    gathering.add(1, "a", "first", 0.0)
    assert gathering.ready(BOTH, 0.0, None) is None
    gathering.add(1, "b", "second", 0.0)
    assert gathering.ready(BOTH, 0.0, None) == 1
    assert gathering.close(1) == {"a": "first", "b": "second"}
    assert gathering.closed == 1


def test_a_tick_waits_no_longer_than_the_grace_period() -> None:
    gathering: Gathering[str] = Gathering()
    gathering.add(1, "a", "first", 10.0)
    assert gathering.due(GRACE_S) == 12.0
    assert gathering.ready(BOTH, 11.9, GRACE_S) is None
    assert gathering.ready(BOTH, 12.0, GRACE_S) == 1


def test_without_a_grace_period_a_tick_waits_for_ever_and_later_ones_for_it() -> None:
    gathering: Gathering[str] = Gathering()
    gathering.add(1, "a", "first", 0.0)
    for name in BOTH:
        gathering.add(2, name, "later", 0.0)
    assert gathering.ready(BOTH, 1e9, None) is None
    assert gathering.due(None) is None


def test_what_comes_late_or_twice_changes_nothing() -> None:
    gathering: Gathering[str] = Gathering(closed=5)
    assert not gathering.add(5, "a", "late", 0.0)
    assert gathering.add(6, "a", "first", 0.0)
    assert not gathering.add(6, "a", "again", 0.0)
    assert gathering.close(6) == {"a": "first"}

from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from services._kit import state_records as module
from services._kit.errors import Refused
from services._kit.state_records import (
    MOST_PARTS,
    FoundStates,
    StateRecord,
    TooLarge,
    part_key,
    state_records,
)
from services._kit.state_store import StateStore
from tests.kit_example_helpers import Example, ExampleSettings, ExampleState

KEY = "payments"
RECORD_BYTES = 100
Records = dict[str, StateRecord | None]


@pytest.fixture(autouse=True)
def small_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of 100 bytes, and nothing so small that it is not deflated."""
    monkeypatch.setattr(module, "LARGEST_RECORD_BYTES", RECORD_BYTES)
    monkeypatch.setattr(module, "DEFLATED_FROM_BYTES", 0)


def noise(size: int, seed: int) -> bytes:
    """Bytes that cannot be deflated."""
    return Random(seed).randbytes(size)


def found_in(records: Any) -> FoundStates:
    found = FoundStates()
    for key, record in records:
        found.add(key, record)
    return found


@pytest.mark.parametrize("data", [b"", b"small", b"alike" * 20_000, noise(99_000, 0)])
def test_a_state_that_fits_is_one_record_under_its_own_key(
    data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    records = state_records(KEY, data)
    assert list(records) == [KEY]
    assert len(records[KEY].value) < 100_000
    assert found_in(records.items()).join(KEY) == data


def test_a_small_state_is_not_deflated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert state_records(KEY, b"small") == {KEY: StateRecord(b"small")}


def test_every_part_of_a_large_state_fits_into_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    data = noise(2_500_000, 0)
    records = state_records(KEY, data)
    assert list(records) == [KEY, "!part/2/payments", "!part/3/payments"]
    assert max(len(record.value) for record in records.values()) <= module.LARGEST_RECORD_BYTES
    assert found_in(records.items()).join(KEY) == data


def test_a_state_of_too_many_parts_is_refused_before_it_is_sent() -> None:
    assert len(state_records(KEY, noise(MOST_PARTS * RECORD_BYTES - 20, 0))) == MOST_PARTS
    with pytest.raises(TooLarge, match=r"`payments` has 1,6.. bytes deflated, more than the 1,600"):
        state_records(KEY, noise(MOST_PARTS * RECORD_BYTES, 0))


def test_parts_may_be_found_in_any_order() -> None:
    data = noise(450, 0)
    records = list(state_records(KEY, data).items())
    Random(1).shuffle(records)
    assert found_in(records).join(KEY) == data


@given(st.integers(1, 700), st.integers(1, 700), st.integers(0, 2**40 - 1))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_records_of_two_saves_are_never_mixed(first: int, second: int, choice: int) -> None:
    one, other = noise(first, 1), noise(second, 2)
    saves = [state_records(KEY, one), state_records(KEY, other)]
    picked = FoundStates()
    for index, key in enumerate(sorted({*saves[0], *saves[1]})):
        # Of each record: that of either save, or none.
        source = choice // 3**index % 3
        if source < 2 and key in saves[source]:
            picked.add(key, saves[source][key])
    with suppress(Refused):
        assert KEY not in picked or picked.join(KEY) in (one, other)


SECOND = part_key(KEY, 2)
SPOILT = {
    "part 2 of 5 is missing": (SECOND, None),
    "part 2 of 5 is of another save": (SECOND, StateRecord(b"x")),
    "expected up to 16 parts, got b'99'": (KEY, StateRecord(b"x", [("part", b"1/99/x")])),
    "expected up to 16 parts, got b''": (KEY, StateRecord(b"x", [("part", b"\xff")])),
    "Error -3": (KEY, StateRecord(b"x" * 9, [("content-encoding", b"deflate")])),
}


@pytest.mark.parametrize("problem", SPOILT)
def test_a_corrupted_save_is_refused_with_what_is_wrong(problem: str) -> None:
    records = [*state_records(KEY, noise(450, 0)).items(), SPOILT[problem]]
    with pytest.raises(Refused, match=problem):
        found_in(records).join(KEY)


def test_a_part_with_another_content_is_refused() -> None:
    records = state_records(KEY, noise(450, 0))
    records[SECOND] = records[SECOND]._replace(value=b"x")
    with pytest.raises(Refused, match="expected the digest"):
        found_in(records.items()).join(KEY)


def test_records_that_are_of_no_state_are_left_alone() -> None:
    found = FoundStates()
    for key in ("!part/0/a", "!part/x/a", "!part/2/", "!other/a"):
        assert found.add(key, StateRecord(b"x")) is None
    assert not list(found)
    assert found.parts() == {}


def test_a_part_without_a_first_one_is_no_state_and_goes_with_the_next_save() -> None:
    store: StateStore[ExampleState] = StateStore(Example(ExampleSettings()))
    store.restore("!part/4/payments", StateRecord(b"x"), 0)
    store.join()
    assert store.saved_keys == ()
    assert store.records(KEY, b"small")["!part/4/payments"] is None


class SavesAndCrashes(RuleBasedStateMachine):
    """Saves of one key by processes that die, in a log that is compacted now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[tuple[str, StateRecord | None]] = []
        """Committed records, in order."""
        self.expected: bytes | None = None
        self.restart()

    def new_store(self) -> StateStore[ExampleState]:
        store: StateStore[ExampleState] = StateStore(Example(ExampleSettings()))
        for key, record in self.log:
            store.restore(key, record, 0)
        store.join()
        return store

    @rule()
    def restart(self) -> None:
        self.store = self.new_store()

    @rule(size=st.integers(0, 900), seed=st.integers(0, 3))
    def save(self, size: int, seed: int) -> None:
        self._commit(noise(size, seed))

    @rule()
    def drop(self) -> None:
        self._commit(None)

    @rule(size=st.integers(0, 900))
    def crash_before_the_commit(self, size: int) -> None:
        self.store.records(KEY, noise(size, 9))
        self.restart()

    @rule(size=st.integers(0, 900))
    def crash_after_the_commit(self, size: int) -> None:
        self.expected = noise(size, 4)
        self.log += self.store.records(KEY, self.expected).items()
        self.restart()

    @rule(share=st.floats(0, 1), tombstones=st.booleans())
    def compact(self, share: float, tombstones: bool) -> None:
        """Up to some offset, as a cleaner does; tombstones go some time later."""
        end = int(share * len(self.log))
        cleaned = self.log[:end]
        newest = {key: at for at, (key, _) in enumerate(cleaned)}
        kept = [
            (key, record)
            for at, (key, record) in enumerate(cleaned)
            if newest[key] == at and (record is not None or not tombstones)
        ]
        self.log = kept + self.log[end:]

    @invariant()
    def the_last_committed_state_is_found(self) -> None:
        assert self.new_store().last_saved(KEY) == self.expected

    @invariant()
    def nothing_is_left_of_larger_saves(self) -> None:
        newest = dict(self.log)
        left = {key for key, record in newest.items() if record is not None}
        wanted = set() if self.expected is None else set(state_records(KEY, self.expected))
        assert left == wanted

    def _commit(self, data: bytes | None) -> None:
        records = self.store.records(KEY, data)
        self.log += records.items()
        self.store.committed(KEY, records)
        self.store.set_saved(KEY, data)
        self.expected = data


def test_any_saves_crashes_and_compactions_restore_the_last_committed_state() -> None:
    run_state_machine_as_test(
        SavesAndCrashes,
        settings=settings(max_examples=60, stateful_step_count=30, deadline=None),
    )


def test_a_part_has_a_key_of_its_own() -> None:
    assert [part_key(KEY, number) for number in (1, 2)] == [KEY, "!part/2/payments"]


def test_forged_parts_beyond_the_most_are_not_kept_and_go_with_the_next_save() -> None:
    found = FoundStates()
    for number in (MOST_PARTS, MOST_PARTS + 1, 9999):
        found.add(part_key("a", number), StateRecord(bytes(1000)))
    assert [len(record.value) for record in found._records["a"].values()] == [1000, 0, 0]
    assert found.parts() == {"a": frozenset({MOST_PARTS, MOST_PARTS + 1, 9999})}


@pytest.mark.parametrize("parts", [1, 2])
def test_a_state_that_inflates_without_end_is_refused(
    parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGEST_STATE_BYTES", 10**6)
    monkeypatch.setattr(module, "LARGEST_RECORD_BYTES", 20_000 // parts)
    data = noise(12_000, 0) + bytes(10**6 - 12_000)
    fits = state_records(KEY, data)
    assert len(fits) == parts
    assert found_in(fits.items()).join(KEY) == data
    monkeypatch.setattr(module, "LARGEST_STATE_BYTES", 10**6 - 1)
    with pytest.raises(Refused, match="at most 999,999 bytes inflated"):
        found_in(fits.items()).join(KEY)
    # So nothing is saved that could not be loaded.
    with pytest.raises(TooLarge, match=r"has 1,000,000 bytes, more than the 999,999"):
        state_records(KEY, data)


def test_a_deflated_state_without_its_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    ((key, record),) = state_records(KEY, b"alike" * 20_000).items()
    cut = record._replace(value=record.value[:-10])
    with pytest.raises(Refused, match="its end is missing"):
        found_in([(key, cut)]).join(KEY)

"""Every kind of fault has a name that is its own and fits into the table."""

from services.measure.chaos.faults import all_faults
from services.measure.chaos.subject import SERVICES


def test_names_are_unique_and_short_enough_for_a_table_of_80_columns() -> None:
    names = [fault.name for fault in all_faults(3)]
    assert len(set(names)) == len(names)
    assert max(map(len, names)) <= 20


def test_every_service_is_killed_paused_and_has_wrong_clocks() -> None:
    names = {fault.name for fault in all_faults(1)}
    expected = {f"{what} {name}" for what in ("kill", "pause", "clock") for name in SERVICES}
    assert expected <= names
    assert "one broker lost" not in names
    assert "one broker lost" in {fault.name for fault in all_faults(3)}

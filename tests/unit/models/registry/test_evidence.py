"""A file of evidence is judged only if its tables are pairs of figures of the same scenarios."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from models.inputs.errors import InputError
from models.registry.evidence import Evidence, read_evidence

TWO: dict[str, Any] = {
    "scenarios": ["calm", "flash-sale"],
    "candidate": [[1.0, 2.0], [3.0, 4.0]],
    "incumbent": [[2.0, 2.0], [3.0, 5.0]],
}


def read(folder: Path, **fields: Any) -> Evidence:
    file = folder / "evidence.json"
    file.write_bytes(msgspec.json.encode(fields))
    return read_evidence(file)


def test_tables_of_the_same_scenarios_are_read(tmp_path: Path) -> None:
    found = read(tmp_path, objective=TWO, p0_minutes=TWO)
    assert found.p0_minutes is not None
    assert found.p0_minutes.incumbent == TWO["incumbent"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"scenarios": [], "candidate": [], "incumbent": []},
        {"candidate": [[1.0, 2.0]]},
        {"incumbent": [[2.0, 2.0], [3.0]]},
        {"incumbent": [[2.0], [3.0]]},
        {"candidate": [[], []], "incumbent": [[], []]},
    ],
)
@pytest.mark.parametrize("name", ["objective", "equal_cost", "p0_minutes"])
def test_a_table_that_pairs_no_figures_is_refused_in_one_line(
    tmp_path: Path, name: str, wrong: dict[str, Any]
) -> None:
    with pytest.raises(InputError, match=f"evidence.json: {name}: expected a row") as refused:
        read(tmp_path, **{name: TWO | wrong})
    assert "\n" not in str(refused.value)


def test_a_scenario_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="p0_minutes: names a scenario twice"):
        read(tmp_path, p0_minutes=TWO | {"scenarios": ["calm", "calm"]})


def test_p0_of_fewer_scenarios_than_the_objective_is_refused(tmp_path: Path) -> None:
    fewer = {"scenarios": ["calm"], "candidate": [[1.0, 2.0]], "incumbent": [[2.0, 2.0]]}
    with pytest.raises(InputError, match="objective, p0_minutes: expected the same scenarios"):
        read(tmp_path, objective=TWO, p0_minutes=fewer)

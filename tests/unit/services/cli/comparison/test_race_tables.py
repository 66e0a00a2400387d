"""The final table fits a terminal, explains its rows and says who won."""

import io

import msgspec
import pytest
from rich.console import Console

from models.cluster.description import PRIORITIES
from models.sim.results.summary import Result
from services.cli.comparison.race_tables import READING, final_table, winner
from services.cli.comparison.tables import insurance_table

WORDS = ("controller", "scenario", "violation_minutes", "budget_overruns")


def result(controller: str, objective: float) -> Result:
    zeros = {name: 0 for name in Result.__struct_fields__ if name not in WORDS}
    given = {
        "controller": controller,
        "scenario": "calm",
        "violation_minutes": dict.fromkeys(PRIORITIES, 12_345.6),
        "budget_overruns": None,
        "objective": objective,
        "node_hours": 12_345.6,
    }
    return msgspec.convert(zeros | given, Result)


ROWS = [result("hpa-calibrated", 1200.0), result("pid", 1500.0), result("hirl", 900.0)]


def printed() -> str:
    console = Console(file=io.StringIO(), width=80)
    console.print(final_table("calm, seed 0", ROWS, [2, 1, 0]))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_table_fits_into_80_columns_and_nothing_is_cut() -> None:
    text = printed()
    assert "…" not in text
    assert "12,345.6 (1.00)" in text
    assert max(map(len, text.splitlines())) <= 80


def test_every_row_is_named_in_words_or_explained_below() -> None:
    lines = printed().splitlines()
    below_the_rule = lines[next(i for i, line in enumerate(lines) if "──" in line) + 1 :]
    labels = [line[1:19].strip() for line in below_the_rule if line.strip()]
    assert "PW" not in labels
    for label in labels:
        # Words such as "weighted" of "weighted minutes" are explained once for all rows with them.
        assert any(word in READING for word in label.split(",")[0].split()), label
    for words in ("after the warm-up", "lower is better", "the cluster file's currency"):
        assert words in READING


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (ROWS, "hirl wins with the lowest J, 900.0; hpa-calibrated follows with 1,200.0 (+33 %)"),
        (ROWS[:2], "hpa-calibrated wins with the lowest J, 1,200.0; pid follows"),
        ([ROWS[0], result("hirl", 1200.01)], "hpa-calibrated and hirl are level at a J of 1,200.0"),
    ],
)
def test_one_sentence_says_who_won(rows: list[Result], sentence: str) -> None:
    assert winner(rows).startswith(sentence)


def test_the_sentence_names_whoever_came_last() -> None:
    rows = [result("practitioner", 800.0), result("hpa", 1000.0), result("hirl", 1200.0)]
    assert winner(rows).split("; ")[:3] == [
        "practitioner wins with the lowest J, 800.0",
        "hpa follows with 1,000.0 (+25 %)",
        "hirl 1,200.0 (+50 %)",
    ]


def test_one_controller_wins_nothing() -> None:
    assert winner(ROWS[:1]) == ""


def test_insurance_has_a_table_with_its_share_only_where_something_is_insured() -> None:
    assert insurance_table(ROWS) is None
    paid = msgspec.structs.replace(
        ROWS[0], node_hours=200.0, insurance_node_hours=10.0, insurance_money=27.0
    )
    found = insurance_table([paid, paid, ROWS[1]])
    assert found is not None
    assert found.rows == [("hpa-calibrated", "20", "5.0%", "54")]

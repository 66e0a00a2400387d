"""`hirl override` accepts a reason, and no author."""

import pytest

from services.cli.commands import COMMANDS
from services.cli.main import EXIT_BAD_INPUT, run


@pytest.mark.parametrize(
    "words",
    [name.split() for name in COMMANDS if name.startswith("override ") and "list" not in name],
)
def test_no_option_sets_the_author_of_an_order(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words, "--help"]) == 0
    text = capsys.readouterr().out
    assert "--by" not in text
    assert "--author" not in text


def test_an_order_without_a_reason_is_refused_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["override", "freeze", "--cluster"]) == EXIT_BAD_INPUT
    assert "--reason" in capsys.readouterr().err

"""`hirl override` accepts one scope, an end and a reason, and no author."""

from datetime import timedelta

import pytest

from models.inputs.errors import InputError
from services.admin.orders import Scope
from services.cli.bus.override import duration_of, scope_of
from services.cli.commands import COMMANDS
from services.cli.main import EXIT_BAD_INPUT, run


@pytest.mark.parametrize(("text", "minutes"), [("30m", 30), ("4h", 240), ("2d", 2880)])
def test_durations_are_read(text: str, minutes: int) -> None:
    assert duration_of(text) == timedelta(minutes=minutes)


@pytest.mark.parametrize("text", ["", "4", "h", "-4h", "4w", "1.5h"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="30m, 4h or 2d"):
        duration_of(text)


def test_exactly_one_scope_has_to_be_named() -> None:
    assert scope_of(None, None, "payments", cluster=False) == Scope("domain", "payments")
    with pytest.raises(InputError, match="got 0"):
        scope_of(None, None, None, cluster=False)
    with pytest.raises(InputError, match="got 2"):
        scope_of("a", None, None, cluster=True)


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

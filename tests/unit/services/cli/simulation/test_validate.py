"""`hirl world validate` lists all checks and exits with 1 when one fails."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from matplotlib.axes import Axes

from models.validate.section import Check, Listing, Plot, Section
from services.cli import main
from services.cli.simulation import validate as command

Capture = pytest.CaptureFixture[str]
Parts = dict[str, Callable[[], Section]]


def _draw(axis: Axes) -> None:
    axis.plot([1, 2], [2, 1])


def parts(*, ok: bool) -> Parts:
    section = Section(
        "Weights & measures",
        "A section made by hand.",
        [Check("one is one", "1 < 2", "1", ok)],
        [Plot("a line", _draw)],
        Listing(("name", "number"), [("first", 1.5)]),
    )
    return {"by hand": lambda: section}


@pytest.mark.parametrize(("ok", "code"), [(True, 0), (False, command.EXIT_FAILED)])
def test_the_exit_code_says_whether_all_checks_hold(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ok: bool, code: int
) -> None:
    monkeypatch.setattr(command, "_parts", lambda _effort, _traces: parts(ok=ok))
    file = tmp_path / "validation.json"
    arguments = ["world", "validate", "--quick", "--json", str(file), "--report", str(tmp_path)]
    assert main.run(arguments) == code
    payload = json.loads(file.read_text())
    assert [check["ok"] for check in payload["checks"]] == [ok]
    page = (tmp_path / "validation.html").read_text()
    assert "Weights &amp; measures" in page
    assert "1 &lt; 2" in page
    assert "<svg" in page
    assert payload["world_hash"] in page
    assert ("NO" in capsys.readouterr().out) != ok

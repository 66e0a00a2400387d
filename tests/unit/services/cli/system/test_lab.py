"""`hirl lab run` refuses what it cannot play before it touches anything."""

import pytest

from services.cli import main
from services.lab import controlplane


def test_a_scenario_that_does_not_exist_neither_wipes_nor_starts_a_lab(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    touched: list[str] = []
    for name in ("stop", "start"):
        monkeypatch.setattr(controlplane, name, lambda *_, name=name, **__: touched.append(name))
    assert main.run(["lab", "run", "--scenario", "nope"]) == main.EXIT_BAD_INPUT
    assert "scenario: nope" in capsys.readouterr().err
    assert touched == []

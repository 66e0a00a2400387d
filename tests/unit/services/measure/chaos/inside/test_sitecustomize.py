"""What runs inside of services moves their clock as a file says, and nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from services.measure.chaos.inside.sitecustomize import FOLDER, service_of, wrong_clock
from services.measure.chaos.subject import environment_for, inside_folder


@pytest.mark.parametrize(
    ("words", "service"),
    [
        (["python", "-m", "services.collector"], "collector"),
        (["python", "-m", "pytest"], ""),
        (["python", "-c", "pass"], ""),
        (["python", "-m"], ""),
    ],
)
def test_only_services_are_touched(words: list[str], service: str) -> None:
    assert service_of(words) == service


def test_the_clock_is_right_until_the_file_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.measure.chaos.inside.sitecustomize._READ_EVERY_S", 0.0)
    file = tmp_path / "clock-collector"
    now = wrong_clock(lambda: 1000.0, file)
    assert now() == 1000.0
    file.write_text("-3600")
    assert now() == -2600.0
    file.write_text("soon")
    assert now() == 1000.0


def test_a_service_runs_the_code_and_the_time_that_it_is_given(tmp_path: Path) -> None:
    other = tmp_path / "other" / "services"
    other.mkdir(parents=True)
    (other / "__init__.py").touch()
    (other / "collector.py").write_text("import time; print(time.time())")
    environment = os.environ | environment_for(tmp_path)
    assert environment[FOLDER] == str(inside_folder(tmp_path))
    (inside_folder(tmp_path) / "code-collector").write_text(str(other.parent))
    (inside_folder(tmp_path) / "clock-collector").write_text("1e12")
    command = [sys.executable, "-m", "services.collector"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert float(done.stdout) > 1e12

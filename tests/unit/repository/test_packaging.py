"""The wheel ships what users of the package and its licence need."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def in_wheel() -> set[str]:
    builder = WheelBuilder(str(ROOT))
    return {file.distribution_path for file in builder.recurse_included_files()}


@pytest.mark.parametrize("package", ["services", "models", "schemas"])
def test_every_package_ships_its_type_information(package: str, in_wheel: set[str]) -> None:
    assert f"{package}/py.typed" in in_wheel


def test_the_licence_is_the_whole_apache_licence() -> None:
    assert PROJECT["license"] == "Apache-2.0"
    text = (ROOT / "LICENSE").read_text()
    assert "Version 2.0, January 2004" in text
    for clause in range(1, 10):
        assert f"\n   {clause}. " in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_the_hosted_workflow_calls_the_script_that_developers_call() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    steps = workflow["jobs"]["presubmit"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == [".ci/run"]
    settings = [step.get("with", {}) for step in steps]
    assert {"python-version": "3.11"} in settings
    assert any(step.get("java-version") == "17" for step in settings)


def test_pre_commit_hooks_need_no_download() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [repository["repo"] for repository in hooks] == ["local"]
    for hook in hooks[0]["hooks"]:
        assert hook["language"] == "system"
        assert (ROOT / hook["entry"].split()[0]).exists()


def test_every_test_file_that_the_makefile_names_exists() -> None:
    named = re.findall(r"tests/[\w/]+\.py", (ROOT / "Makefile").read_text())
    assert named
    assert [file for file in named if not (ROOT / file).exists()] == []

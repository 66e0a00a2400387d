"""Version, changelog and released schemas agree; `make release-check` checks the rest."""

import re
import tomllib
from datetime import date
from pathlib import Path

import pytest

from schemas import asyncapi, compatibility
from schemas.topics import BY_NAME

ROOT = Path(__file__).parents[3]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
SECTIONS = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_the_changelog_begins_with_unreleased_and_the_current_version() -> None:
    assert SECTIONS[0] == "[Unreleased]"
    version, _, released_on = SECTIONS[1].partition(" - ")
    assert version == f"[{VERSION}]"
    assert date.fromisoformat(released_on) >= date(2026, 11, 17)


def test_the_contract_has_the_version_of_the_package() -> None:
    assert VERSION == asyncapi.VERSION


@pytest.mark.parametrize("version", [re.sub(r"^\[(.*)\] - .*", r"\1", s) for s in SECTIONS[1:]])
def test_every_version_in_the_changelog_has_its_schemas(version: str) -> None:
    assert compatibility.released()[version].keys() <= BY_NAME.keys()
    assert compatibility.released()[version]


def test_every_stored_release_is_in_the_changelog() -> None:
    assert {f"[{version}]" for version in compatibility.released()} == {
        section.partition(" - ")[0] for section in SECTIONS[1:]
    }

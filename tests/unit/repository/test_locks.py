"""The locks pin every package of an environment, and agree with each other."""

import re
from pathlib import Path

import pytest

LOCKS = Path(__file__).parents[3] / "infra" / "locks"
FILES = sorted(LOCKS.glob("*.txt"))


def pins(file: Path) -> dict[str, str]:
    """Version and marker by package."""
    lines = re.findall(r"^(\S+)==(.+?) \\$", file.read_text(), flags=re.MULTILINE)
    assert len({name for name, _ in lines}) == len(lines), f"{file.name} pins a package twice"
    return dict(lines)


def test_every_environment_has_a_lock() -> None:
    assert [file.stem for file in FILES] == ["bootstrap", "dev", "serving", "training"]


def test_torch_is_in_the_training_lock_only() -> None:
    assert {file.stem: pins(file).get("torch") for file in FILES} == {
        "bootstrap": None,
        "dev": None,
        "serving": None,
        "training": "2.13.0",
    }


@pytest.mark.parametrize("name", ["dev", "serving"])
def test_every_environment_has_the_versions_of_the_training_lock(name: str) -> None:
    training = pins(LOCKS / "training.txt")
    assert pins(LOCKS / f"{name}.txt").items() <= training.items()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_package_has_a_version_and_hashes_and_no_url(file: Path) -> None:
    text = file.read_text()
    requirements = text.replace("\\\n", " ").splitlines()
    for line in requirements:
        if line.startswith("#"):
            continue
        assert re.fullmatch(
            r"[a-z0-9-]+==[^@/]+?( --hash=sha256:[0-9a-f]{64})+", single_spaced(line)
        )
    assert "://" not in text
    assert "index" not in text


def single_spaced(line: str) -> str:
    return " ".join(line.split())

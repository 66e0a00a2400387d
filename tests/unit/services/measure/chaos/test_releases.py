"""The code of an earlier release comes from the repository's history, or not at all."""

import shutil
import subprocess
from pathlib import Path

import pytest

from services.measure.chaos import releases
from services.measure.chaos.subject import Skipped

IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two commits: a release, and work after it."""
    folder = tmp_path / "repository"
    for package in ("schemas", "models", "services"):
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").write_text("release = 1\n")
    monkeypatch.setattr(releases, "_REPOSITORY", folder)
    monkeypatch.setattr(releases, "FOLDER", tmp_path / "releases")
    (folder / "CHANGELOG.md").write_text("## [Unreleased]\n\n## [0.1.0] - 2026-11-17\n")
    git(folder, "init", "--quiet")
    commit(folder)
    (folder / "services" / "__init__.py").write_text("release = 2\n")
    commit(folder)
    return folder


def git(folder: Path, *words: str) -> None:
    program = shutil.which("git")
    assert program is not None
    subprocess.run([program, *IDENTITY, *words], cwd=folder, check=True)


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "--quiet", "-m", "something")


def test_the_last_release_is_the_commit_that_added_it_to_the_changelog(repository: Path) -> None:
    folder = releases.checkout()
    assert (folder / "services" / "__init__.py").read_text() == "release = 1\n"
    assert folder.parent == repository.parent / "releases"
    assert releases.checkout() == folder, "and is extracted once"


def test_a_tag_of_the_release_wins(repository: Path) -> None:
    git(repository, "tag", "v0.1.0")
    assert releases.last_release() == "v0.1.0"
    assert (releases.checkout() / "services" / "__init__.py").read_text() == "release = 2\n"


def test_a_revision_may_be_named(repository: Path) -> None:
    folder = releases.checkout("HEAD")
    assert (folder / "services" / "__init__.py").read_text() == "release = 2\n"
    with pytest.raises(Skipped, match="rev-parse failed"):
        releases.checkout("nonsense")
    assert repository.is_dir()


def test_without_history_or_changelog_the_fault_is_skipped(repository: Path) -> None:
    (repository / "CHANGELOG.md").write_text("## [Unreleased]\n")
    with pytest.raises(Skipped, match="the last release is unknown"):
        releases.checkout()
    (repository / "CHANGELOG.md").unlink()
    with pytest.raises(Skipped, match="No such file"):
        releases.checkout()

"""The code of an earlier release, from the repository's history."""

import io
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Final

from services.measure.chaos.subject import Skipped

FOLDER: Final = Path(".hirl/releases")
_REPOSITORY: Final = Path(__file__).parents[3]
_PACKAGES: Final = ("schemas", "models", "services")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_HEADING: Final = re.compile(r"^## \[(\d[^\]]*)\]", re.MULTILINE)


def checkout(revision: str = "") -> Path:
    """A folder with the packages of a revision; without one, of the last release."""
    commit = _git("rev-parse", "--verify", f"{revision or last_release()}^{{commit}}").decode()
    folder = FOLDER / commit.strip()
    if not folder.is_dir():
        archive = _git("archive", "--format=tar", commit.strip(), *_PACKAGES)
        draft = folder.with_suffix(".new")
        shutil.rmtree(draft, ignore_errors=True)
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(draft, filter="data")
        draft.rename(folder)
    return folder


def present() -> str:
    """The commit of the present code, with `+` if files differ from it."""
    commit = _git("rev-parse", "--short", "HEAD").decode().strip()
    return f"{commit}+" if _git("status", "--porcelain", *_PACKAGES) else commit


def last_release() -> str:
    """The tag of the newest release in the changelog; without one, the commit that added it."""
    try:
        text = (_REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    except OSError as error:
        raise Skipped(f"the last release is unknown: {error}") from None
    heading = _HEADING.search(text)
    if heading is None:
        raise Skipped("the last release is unknown: CHANGELOG.md has none")
    tag = f"v{heading.group(1)}"
    if _git("tag", "--list", tag):
        return tag
    commit = _git("log", "--format=%H", "-1", f"-S{heading.group(0)}", "--", "CHANGELOG.md")
    if not _COMMIT.fullmatch(commit.decode().strip()):
        raise Skipped(f"the history has no commit that released {heading.group(1)}")
    return commit.decode().strip()


def _git(*words: str) -> bytes:
    program = shutil.which("git")
    if program is None:
        raise Skipped("the code of an earlier release comes from git, which is not installed")
    done = subprocess.run(  # noqa: S603  our own command line
        [program, *words], cwd=_REPOSITORY, capture_output=True, check=False
    )
    if done.returncode != 0:
        raise Skipped(f"git {words[0]} failed: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout

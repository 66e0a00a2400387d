"""Every command, path and link in the documentation works."""

from pathlib import Path

import pytest

from services.reference.command_line import cli_page
from services.reference.fields import settings_page
from services.reference.metrics import metrics_page
from services.reference.pages import stale
from tests.unit.repository.doc_pages import (
    PAGES,
    ROOT,
    Command,
    anchors,
    broken_links,
    commands_in,
    missing_names,
    name_of,
    problem_of,
)

every_page = pytest.mark.parametrize("page", PAGES, ids=name_of)


@every_page
def test_every_command_and_make_target_in_a_page_exists(page: Path) -> None:
    commands = commands_in(page.read_text(encoding="utf-8"), name_of(page))
    assert [f"{one}: {problem}" for one in commands if (problem := problem_of(one))] == []


@every_page
def test_every_link_between_pages_resolves(page: Path) -> None:
    assert list(broken_links(page, page.read_text(encoding="utf-8"))) == []


@every_page
def test_every_file_and_module_that_a_page_names_exists(page: Path) -> None:
    assert list(missing_names(page.read_text(encoding="utf-8"))) == []


def test_generated_pages_are_current() -> None:
    assert list(stale()) == [], "run make docs"


def test_every_setting_and_metric_is_described() -> None:
    for page in (settings_page(), metrics_page()):
        rows = [line for line in page.splitlines() if line.startswith("| `")]
        assert [row for row in rows if row.endswith("|  |")] == []


def test_every_page_is_linked_from_an_index() -> None:
    listed = (ROOT / "docs" / "README.md").read_text()
    groups = {page.parent.name for page in PAGES if page.is_relative_to(ROOT / "docs")}
    for group in groups - {"docs"}:
        for page in (ROOT / "docs" / group).glob("*.md"):
            index = ROOT / "docs" / group / "README.md"
            where = index.read_text() if index.exists() and page != index else listed
            assert f"{page.name})" in where or f"{group}/{page.name})" in listed, page


# Tests of the checker itself: it finds commands, and it reports errors.


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Run `hirl up --apps 5` now.", [("hirl", "up", "--apps", "5")]),
        ("```\n$ .venv/bin/hirl down   # stops it\n```", [("hirl", "down")]),
        ("```\nhirl up \\\n    --lock-step\n```", [("hirl", "up", "--lock-step")]),
        ("```shell\ncd x && make test-pure\n```", [("make", "test-pure")]),
        ("```\nA=1 hirl tail budgets | grep x\n```", [("hirl", "tail", "budgets")]),
        ("```python\nhirl = 5\n```", []),
        ("Without code, hirl up is prose.", []),
        ("`python -m services.soldier`", [("python", "-m", "services.soldier")]),
    ],
)
def test_commands_are_found_in_blocks_and_in_inline_code(
    text: str, found: list[tuple[str, ...]]
) -> None:
    assert [one.words for one in commands_in(text)] == found


@pytest.mark.parametrize(
    "line",
    [
        "hirl up --apps 155 --lock-step",
        "hirl up --bus memory",
        "hirl explain APP --tick 3",
        "hirl world show --help",
        "hirl --version",
        "make run BUS=memory",
        "make",
        "python -m services.collector",
        "python setup.py",
    ],
)
def test_the_checker_accepts_existing_commands(line: str) -> None:
    assert problem_of(Command("page", tuple(line.split()))) == ""


@pytest.mark.parametrize(
    "line",
    [
        "hirl fly",
        "hirl world destroy",
        "hirl up --turbo",
        "hirl up --bus carrier-pigeon",
        "hirl down now",
        "hirl --verbose",
        "make test-sb3",
        "make run WINGS=2",
        "python -m services.general",
    ],
)
def test_the_checker_refuses_commands_that_do_not_exist(line: str) -> None:
    assert problem_of(Command("page", tuple(line.split())))


def test_missing_files_and_modules_are_found() -> None:
    good = (
        "`services/_kit/handler.py` `handler.py` `services/NAME/decide.py` `schemas.codec.decode`"
    )
    assert list(missing_names(good)) == []
    bad = "`services/gone.py` `gone.py` `schemas.codec.nothing_like_it` `models.gone`"
    assert len(list(missing_names(bad))) == 4


def test_broken_links_and_anchors_are_found() -> None:
    page = ROOT / "README.md"
    assert list(broken_links(page, "[a](LICENSE) [b](https://example.com)")) == []
    bad = "[a](docs/gone.md) [b](CONTRIBUTING.md#no-such-heading) ![c](gone.svg)"
    assert len(list(broken_links(page, bad))) == 3


def test_anchors_are_those_that_github_generates() -> None:
    text = "# The `hirl` command\n## A, b: c\n## A, b: c\n```\n# no heading\n```\n"
    assert anchors(text) == {"the-hirl-command", "a-b-c", "a-b-c-1"}


def test_a_pair_of_flags_has_the_default_flag_and_not_a_truth_value() -> None:
    text = cli_page()
    assert "| `--resume`, `--fresh` |  | `--resume` |" in text
    assert "`True`" not in text

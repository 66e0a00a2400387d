"""SECURITY.md claims only what a test backs, and has a row for each principal."""

import re
from pathlib import Path

from services.admin.desired import services

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "SECURITY.md").read_text()
ROWS = re.findall(
    r"^\| (\w+) \| (.+) \| (.+) \| (.+) \|$", TEXT.partition("## Threat model")[2], re.MULTILINE
)


def test_every_test_that_is_named_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", TEXT))
    assert len(named) > 15
    sources = "\n".join(file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
    assert {name for name in named if f"def {name}(" not in sources} == set()


def test_every_principal_has_a_row() -> None:
    assert [name for name, *_ in ROWS if name != "principal"] == sorted(
        services(), key=[name for name, *_ in ROWS].index
    )
    assert {name for name, *_ in ROWS} - {"principal"} == set(services())


def test_a_claim_names_its_test_or_says_not_yet() -> None:
    for principal, *_, backing in ROWS:
        assert principal == "principal" or "`test_" in backing or backing == "not yet"

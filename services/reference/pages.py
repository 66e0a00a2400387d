"""All generated pages; run as `python -m services.reference.pages` to write the stale ones."""

import sys
from pathlib import Path
from typing import Final

from models.features import table as features
from services.reference.command_line import cli_page
from services.reference.events import events_page
from services.reference.fields import cluster_file_page, physics_file_page, settings_page
from services.reference.markdown import ROOT
from services.reference.metrics import metrics_page

FOLDER: Final = ROOT / "docs" / "reference"


def pages() -> dict[str, str]:
    """Every generated page: its file name in docs/reference, and its content."""
    return {
        "cli.md": cli_page(),
        "cluster-file.md": cluster_file_page(),
        "events.md": events_page(),
        "features.md": features.markdown(),
        "metrics.md": metrics_page(),
        "physics-file.md": physics_file_page(),
        "settings.md": settings_page(),
    }


def stale() -> dict[str, str]:
    """The pages whose file differs from what would be generated now, with their new content."""
    return {name: text for name, text in pages().items() if _text(FOLDER / name) != text}


def write_stale() -> list[str]:
    """Write the stale pages and return their names."""
    changed = stale()
    for name, text in changed.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return list(changed)


def _text(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


if __name__ == "__main__":
    written = ", ".join(write_stale()) or "nothing, all pages are current"
    sys.stdout.write(f"docs: wrote {written}\n")

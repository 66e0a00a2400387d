"""Self-contained HTML pages: one frame and style for all reports."""

import io
import re
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from services.cli.output import write_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLOT_STYLE = Path(__file__).with_name("report.mplstyle")
INK = "#010203"
"""Placeholder for the text colour of the page, so that plots work on dark pages, too."""
_FRAME = Path(__file__).with_name("page.html")


def page(title: str, body: Path, **parts: str) -> str:
    """A page with the template file `body`; `parts` are escaped HTML."""
    return _filled(_FRAME, title=title, body=_filled(body, title=title, **parts))


def _filled(template: Path, **parts: str) -> str:
    return Template(template.read_text(encoding="utf-8")).substitute(parts)


def write_page(file: Path, text: str) -> Path:
    """Write a page, creating its folder if needed; return the file."""
    write_file(file, text.encode())
    return file


def drawing(figure: "Figure") -> str:
    """A figure as an SVG element, without an XML prologue.

    Group ids are removed, because two drawings in one page would share them.
    """
    buffer = io.StringIO()
    # Without a date, so that equal results give equal files.
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    alone = re.sub(r' id="[\w.]+_\d+"', "", text[text.index("<svg") :])
    return alone.replace(INK, "currentColor")

"""HTML pages that need nothing but themselves: one frame and style for every report."""

import io
import re
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from models.inputs.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLOT_STYLE = Path(__file__).with_name("report.mplstyle")
INK = "#010203"
"""Stands for the colour of the page's text in plots, so that dark pages work too."""
_FRAME = Path(__file__).with_name("page.html")


def page(title: str, body: Path, **parts: str) -> str:
    """A page whose body is the template `body` with `parts` in it, all escaped already."""
    return _filled(_FRAME, title=title, body=_filled(body, title=title, **parts))


def _filled(template: Path, **parts: str) -> str:
    return Template(template.read_text(encoding="utf-8")).substitute(parts)


def write_page(file: Path, text: str) -> Path:
    """Write a page into a folder that may be new; returns the file."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file}: cannot be written ({error.strerror})") from None
    return file


def drawing(figure: "Figure") -> str:
    """The SVG of a figure alone, without the prologue of a file of its own.

    Names of groups are dropped: two drawings in one page would share them.
    """
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    alone = re.sub(r' id="[\w.]+_\d+"', "", text[text.index("<svg") :])
    return alone.replace(INK, "currentColor")

"""The report of a validation: one HTML file that needs nothing but itself."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from models.validate.section import Listing, Plot, Section
from services.cli.output import Cell, shown
from services.cli.page import PLOT_STYLE, drawing, page, write_page

_BODY = Path(__file__).with_name("validate_report.html")


def write_report(folder: Path, sections: Sequence[Section], world_hash: str, run: str) -> Path:
    """Write the report into `folder`; returns the file."""
    text = page(
        "Can the simulated cluster be believed?",
        _BODY,
        summary=_checks(sections),
        sections="".join(_section(section) for section in sections),
        world_hash=world_hash,
        run=escape(run),
    )
    return write_page(folder / "validation.html", text)


def _checks(sections: Sequence[Section]) -> str:
    rows = []
    for section in sections:
        for check in section.checks:
            mark = '<td class="ok">holds</td>' if check.ok else '<td class="bad">fails</td>'
            cells = "".join(f"<td>{escape(t)}</td>" for t in (check.figure, check.expected))
            rows.append(f"<tr><th>{escape(check.name)}</th>{cells}{mark}</tr>")
    return "".join(rows)


def _section(section: Section) -> str:
    plots = "".join(f"<figure>{_svg(plot)}</figure>" for plot in section.plots)
    return (
        f'<h2>{escape(section.title)}</h2><p class="soft">{escape(section.says)}</p>'
        f"{_listing(section.listing) if section.listing else ''}"
        f'<div class="plots">{plots}</div>'
    )


def _listing(listing: Listing) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in listing.columns)
    rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in listing.rows)
    return f'<div class="card"><table><tr>{head}</tr>{rows}</table></div>'


def _cell(cell: Cell) -> str:
    return f"<td>{escape(shown(cell))}</td>"


def _svg(plot: Plot) -> str:
    # Only reports need plots; a serving installation has no matplotlib.
    import matplotlib as mpl  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    with mpl.rc_context({"svg.hashsalt": plot.title}, str(PLOT_STYLE)):
        figure = Figure(figsize=(5.2, 3.1), layout="constrained")
        axis = figure.subplots()
        axis.set_title(plot.title)
        plot.draw(axis)
        return drawing(figure)

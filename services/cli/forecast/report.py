"""The report of a comparison of forecasts: one HTML file that needs nothing but itself."""

from html import escape
from pathlib import Path
from typing import Final

from services.cli.forecast.result import Result
from services.cli.forecast.tables import READING, Listing, Text, listings
from services.cli.page import page, write_page

_BODY: Final = Path(__file__).with_name("report.html")
_CLASSES: Final = {"": "", "best": ' class="ok"', "bad": ' class="bad"'}
_MOST_NOTES: Final = 40


def write_report(folder: Path, result: Result) -> Path:
    """Write the report into `folder`; returns the file."""
    return write_page(folder / "forecast.html", render(result))


def render(result: Result) -> str:
    """The report as HTML."""
    # Only reports need plots; a serving installation has no matplotlib.
    from services.cli.forecast import plots  # noqa: PLC0415

    windows = sum(each.outcome.windows.at.size for each in result.contests)
    return page(
        "Forecasts compared",
        _BODY,
        run=escape(
            f"{result.file}: {len(result.contests)} series, {windows:,} origins, "
            f"{len(result.models)} models; {result.seconds:.0f} s"
        ),
        reading=escape(f"{READING[0].upper()}{READING[1:]}."),
        tables="".join(_table(listing) for listing in listings(result)),
        ratios=plots.ratios_svg(result),
        calibration=plots.calibration_svg(result),
        days=plots.days_svg(result),
        notes="".join(f"<li>{escape(line)}</li>" for line in _lines(result)),
        command=escape(result.command),
    )


def _lines(result: Result) -> list[str]:
    skipped = [f"skipped: {each.series}: {each.reason}" for each in result.skipped]
    lines = [*result.notes, *skipped, *(note for each in result.contests for note in each.notes)]
    more = len(lines) - _MOST_NOTES
    return [*lines[:_MOST_NOTES], *([f"and {more} more"] if more > 0 else [])] or ["None."]


def _table(listing: Listing) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in listing.columns)
    rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in listing.rows)
    caption = f"<caption>{escape(listing.title)}</caption>"
    return f'<div class="card"><table>{caption}<tr>{head}</tr>{rows}</table></div>'


def _cell(cell: Text) -> str:
    return f"<td{_CLASSES[cell.mark]}>{escape(cell.text)}</td>"

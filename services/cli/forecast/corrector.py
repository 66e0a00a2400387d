"""`hirl train corrector`: fit the correction of a model to recorded traffic, and judge it."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from models.cluster.calendar import DAY_MINUTES
from models.forecaster.data.load import load
from models.forecaster.learned import corrector as correction
from models.forecaster.learned.artefact import CORRECTOR, SHIPPED, load_artefact
from models.forecaster.series import Series
from models.forecaster.training.corpus import LEARNED_SHARE
from models.forecaster.training.corrector import Made, make
from models.inputs.errors import InputError
from services.cli.output import progress, table

EXAMPLES = (
    "Examples: [bold]hirl train corrector --series traffic.csv --artefact .hirl/model[/bold], "
    "[bold]hirl train corrector --series a.csv --series b.csv --calendar a.csv=events.csv[/bold]"
)
LEAST_DAYS = 3

SeriesOption = Annotated[
    list[Path],
    typer.Option(
        "--series", metavar="FILE", help="Recorded traffic by the minute; may be given again."
    ),
]
CalendarOption = Annotated[
    list[str],
    typer.Option("--calendar", metavar="FILE=FILE", help="What was announced about a file."),
]
ArtefactOption = Annotated[
    Path,
    typer.Option("--artefact", metavar="DIR", help="Folder of the model that is corrected."),
]
ShareOption = Annotated[
    float,
    typer.Option("--share", min=0.1, max=1.0, help="Of each series, from its beginning."),
]


def corrector(
    series: SeriesOption,
    calendar: CalendarOption = [],  # noqa: B006  typer reads it once
    artefact: ArtefactOption = SHIPPED,
    share: ShareOption = LEARNED_SHARE,
) -> None:
    """Fit a corrector on what the model said about recorded traffic, and what came of it.

    It is fitted on the earlier part and judged on the later; one that does not help there is
    written, and not used. It looks at the network's hidden state and the last twelve errors.
    """
    console = Console(emoji=False)
    model = load_artefact(artefact)
    calendars = dict(_pair(text) for text in calendar)
    read = [each for path in series for each in load(path, calendars.get(path.name))]
    fine = [
        each for each in read if each.step_min == 1 and each.rps.size > LEAST_DAYS * DAY_MINUTES
    ]
    if not fine:
        raise InputError(f"no series by the minute of {LEAST_DAYS} days or more: name other files")
    stretches = [_stretch(each, share) for each in fine]
    until = max(each.origin_min + end for each, _, end in stretches)
    with progress("fitting", 1, console) as advance:
        made = make(model.session, stretches, ", ".join(each.name for each in fine), until)
        advance(1)
    correction.save(made.corrector, artefact / CORRECTOR)
    _show(console, made, artefact / CORRECTOR)


def _pair(text: str) -> tuple[str, Path]:
    about, _, calendar = text.partition("=")
    if not calendar:
        raise InputError(f"--calendar {text}: expected FILE=FILE, the series and its calendar")
    return Path(about).name, Path(calendar)


def _stretch(series: Series, share: float) -> tuple[Series, int, int]:
    """The last half of what may be learned from: what is older was another time."""
    end = int(series.rps.size * share)
    return series, max(DAY_MINUTES, end // 2), end


def _show(console: Console, made: Made, path: Path) -> None:
    rows = [
        (
            name,
            f"{gain.raw:,.4g}",
            f"{gain.corrected:,.4g}",
            f"{gain.corrected / gain.raw - 1:+.1%}",
        )
        for name, gain in made.gains.items()
        if gain.raw > 0
    ]
    title = "RMSE of the median, where it was not fitted"
    console.print(table(title, ("series", "raw", "corrected", "change"), rows))
    verdict = "is used" if made.corrector.used else "does not help and is not used"
    console.print(f"{path}: fitted to {made.corrector.moments:,} moments; it {verdict}")

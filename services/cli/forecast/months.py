"""`hirl world months`: write simulated traffic and its calendar, to try a forecaster on."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from models.forecaster.data.axes import stamp
from models.forecaster.series import ALWAYS, Series
from models.forecaster.simulated.months import FIRST_MONDAY, FIRST_SEED, months
from models.sim.config.physics import load_sim_cluster, with_apps
from services.cli.commands import examples
from services.cli.options import writable_file
from services.cli.output import writing

UNSEEN_SEED = FIRST_SEED + 1_000_000
"""The shipped model was trained on smaller seeds only."""

OutOption = Annotated[
    Path,
    typer.Option(
        "--out",
        metavar="FILE",
        callback=writable_file,
        help="CSV of the traffic; the calendar is written to FILE.calendar.csv.",
    ),
]
CountOption = Annotated[
    int, typer.Option("--seeds", min=1, max=50, metavar="N", help="Number of seeds.")
]
DaysOption = Annotated[
    int, typer.Option("--days", min=3, max=180, metavar="N", help="Days per seed.")
]
AppsOption = Annotated[
    int, typer.Option("--apps", min=5, metavar="N", help="Apps in the simulated cluster.")
]
SinglesOption = Annotated[
    int,
    typer.Option(
        "--singles", min=0, metavar="N", help="Apps per seed that also get their own series."
    ),
]


@examples(
    "hirl world months --out .hirl/months.csv",
    "hirl bench forecast --series .hirl/months.csv --calendar .hirl/months.calendar.csv "
    "--test-from 2024-01-08",
)
def months_command(
    out: OutOption,
    seeds: CountOption = 1,
    days: DaysOption = 35,
    apps: AppsOption = 155,
    singles: SinglesOption = 0,
) -> None:
    """Write simulated traffic per domain and minute, with a calendar that is partly wrong.

    The seeds are unknown to the shipped model, and events of every kind occur. All series begin
    on the same Monday, so that one date splits them all.
    """
    # Never the training seeds: the shipped model would be scored on what it has learned.
    chosen = [UNSEEN_SEED + seed for seed in range(seeds)]
    found = months(with_apps(load_sim_cluster(), apps), chosen, days, apps=singles)
    made = [each._replace(origin_min=FIRST_MONDAY) for each in found]
    calendar = out.with_suffix(".calendar.csv")
    with writing(out):
        _write_traffic(out, made)
    with writing(calendar):
        _write_calendar(calendar, made)
    events = sum(len(series.calendar) for series in made)
    console = Console(emoji=False)
    console.print(
        f"{out}: {len(made)} series of {days} days; {calendar}: {events} announcements",
        highlight=False,
        soft_wrap=True,
    )


def _write_traffic(path: Path, made: Sequence[Series]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(("series", "timestamp", "value", "missing"))
        for series in made:
            for minute, value in enumerate(series.rps.tolist()):
                present = value == value  # noqa: PLR0124  (NaN differs from itself)
                time = stamp((series.origin_min + minute) * 60)
                rows.writerow(
                    (series.name, time, f"{value:.4f}" if present else "", int(not present))
                )


def _write_calendar(path: Path, made: Sequence[Series]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(("starts_at", "ends_at", "factor", "kind", "series", "announced_at"))
        for series in made:
            for entry in series.calendar:
                announced = entry.announced_from_min
                rows.writerow(
                    (
                        stamp((series.origin_min + entry.start_min) * 60),
                        stamp((series.origin_min + entry.end_min) * 60),
                        entry.factor,
                        entry.kind,
                        series.name,
                        "" if announced == ALWAYS else stamp((series.origin_min + announced) * 60),
                    )
                )

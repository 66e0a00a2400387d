"""`hirl blame`: which part of the system a breach was due to."""

import math
from typing import Annotated, Final

import typer
from rich.console import Console

from models.compare.blame import REPLAYS, Blame, Breach, blame
from models.compare.catalogue import entrant_of
from models.compare.fork import Played
from models.compare.request import FULL_SEEDS, parse_seeds
from models.sim.config.physics import load_scaled
from models.sim.config.scenario import load_scenario
from services.cli.commands import examples
from services.cli.comparison.tables import UNKNOWN
from services.cli.named_options import ScenarioOption
from services.cli.options import AppsOption, ClusterOption, JsonOption, PhysicsOption
from services.cli.output import command_line, print_line, progress, table, write_json

_BAR: Final = 20
"""Characters of a share of 1."""

HeuristicOption = Annotated[
    str,
    typer.Option(
        "--controller",
        metavar="C",
        help="heuristic:FORECAST, policy:FORECAST/commander=DIR, or an entrant of your own.",
    ),
]
SeedsOption = Annotated[
    str, typer.Option("--seeds", metavar="10-19", help="Runs of the scenario, for the intervals.")
]
FromOption = Annotated[
    int, typer.Option("--from", metavar="M", min=0, help="Minute with which the breach begins.")
]
ToOption = Annotated[
    int | None,
    typer.Option("--to", metavar="M", help="Minute before which it ends; the scenario's end."),
]
DomainsOption = Annotated[
    str | None,
    typer.Option("--domains", metavar="A,B", help="Whose violations count; all by default."),
]


@examples(
    "hirl blame --scenario cascade --apps 155",
    "hirl blame --scenario zone-loss --seeds 10 --from 20 --to 40 --domains payments "
    "--json blame.json",
)
def blame_command(
    scenario: ScenarioOption,
    controller: HeuristicOption = "heuristic:calendar",
    seeds: SeedsOption = FULL_SEEDS,
    first: FromOption = 0,
    end: ToOption = None,
    domains: DomainsOption = None,
    apps: AppsOption = None,
    cluster: ClusterOption = None,
    physics: PhysicsOption = None,
    json: JsonOption = None,
) -> None:
    """Share a breach among forecast, Commander, Soldiers and provisioner.

    The run is played again from half an hour before the breach with every combination of ideal
    parts. Shares are Shapley values of the violations that ideal parts avoid, weighted by priority:
    they sum to one. Intervals are of draws of seeds.
    """
    console = Console()
    entrant = entrant_of(controller)
    loaded = load_scaled(cluster, apps, physics)
    chosen = load_scenario(scenario, loaded)
    played = Played(loaded, chosen, parse_seeds(seeds), entrant)
    names = () if domains is None else tuple(name.strip() for name in domains.split(","))
    breach = Breach(first, int(chosen.length_minutes) if end is None else end, names)
    with progress("replaying", REPLAYS, console) as advance:
        found = blame(played, breach, lambda: advance(1))
    of = f"{chosen.name} under {controller}, minutes {breach.first} to {breach.end}"
    _show(console, found, of, len(played.seeds))
    if json is not None:
        given = {
            "--scenario": scenario, "--controller": controller, "--seeds": seeds, "--from": first,
            "--to": end, "--domains": domains, "--apps": apps, "--cluster": cluster,
            "--physics": physics,
        }  # fmt: skip
        write_json(json, {"command": command_line("hirl blame", given), "blame": found})
        print_line(console, f"JSON: {json}")


def _show(console: Console, found: Blame, of: str, seeds: int) -> None:
    rows = [
        (one.part, _share(one.share.value, one.share.low, one.share.high),
         f"{one.minutes.value:,.1f}", _bar(one.share.value))
        for one in found.shares
    ]  # fmt: skip
    print_line(console, of)
    print_line(
        console,
        f"weighted violation minutes per seed: {found.minutes:,.1f}, "
        f"with every part ideal {found.unavoidable:,.1f}",
    )
    columns = ("part", "share [95 %]", "minutes", "")
    console.print(table("Who is to blame for the rest", columns, rows))
    if found.minutes <= found.unavoidable:
        verdict = "nothing was avoidable: ideal parts do no better"
    elif found.named is None:
        verdict = "no part is ahead of the others beyond doubt"
    else:
        verdict = f"due to the {found.named}" + ("" if seeds > 1 else ", in this one seed")
    print_line(console, verdict)


def _share(value: float, low: float, high: float) -> str:
    if math.isnan(value):
        return UNKNOWN
    return f"{value:.2f}" if math.isnan(low) else f"{value:.2f} [{low:.2f}, {high:.2f}]"


def _bar(share: float) -> str:
    return "" if math.isnan(share) else "█" * round(_BAR * min(1.0, max(0.0, share)))

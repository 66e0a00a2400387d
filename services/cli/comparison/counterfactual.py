"""`hirl counterfactual`: what a run would have become, had it been decided otherwise."""

import math
from typing import Annotated

import typer
from rich.console import Console

from models.compare.catalogue import entrant_of
from models.compare.counterfactual import (
    LEVERS,
    Difference,
    Otherwise,
    counterfactual,
    parse_change,
)
from models.compare.fork import Played
from models.compare.request import FULL_SEEDS, parse_seeds
from models.sim.config.physics import load_scaled
from models.sim.config.scenario import load_scenario
from models.statistics import Interval
from services.cli.commands import examples
from services.cli.comparison.blame import HeuristicOption, SeedsOption
from services.cli.comparison.tables import FEW_SEEDS
from services.cli.named_options import ScenarioOption
from services.cli.options import AppsOption, ClusterOption, JsonOption, PhysicsOption
from services.cli.output import command_line, print_line, progress, table, write_json

AtOption = Annotated[
    int, typer.Option("--at", metavar="M", min=0, help="Minute of the decision, after the warm-up.")
]
MinutesOption = Annotated[
    int, typer.Option("--minutes", metavar="N", min=1, help="Decisions that are changed, one each.")
]
ChangeOption = Annotated[
    list[str],
    typer.Option(
        "--change",
        metavar="C",
        help=f"LEVER=FACTOR or LEVER.DOMAIN=FACTOR; of {', '.join(LEVERS)}. May be repeated.",
    ),
]


@examples(
    "hirl counterfactual --scenario cascade --apps 155 --at 20 --minutes 10 --change headroom=1.2",
    "hirl counterfactual --scenario zone-loss --seeds 10 --at 15 --change need.payments=1.3 "
    "--change spare=2 --json other.json",
)
def counterfactual_command(
    scenario: ScenarioOption,
    at: AtOption,
    change: ChangeOption,
    minutes: MinutesOption = 1,
    controller: HeuristicOption = "heuristic:calendar",
    seeds: SeedsOption = FULL_SEEDS,
    apps: AppsOption = None,
    cluster: ClusterOption = None,
    physics: PhysicsOption = None,
    json: JsonOption = None,
) -> None:
    """Decide otherwise for some minutes of a run, and compare what comes of it.

    The run is saved at the minute and played to its end twice, on the same seeds. A change
    multiplies what the heuristic or its policy decides, in each decision of those minutes.
    """
    console = Console()
    changes = tuple(parse_change(text) for text in change)
    entrant = entrant_of(controller)
    loaded = load_scaled(cluster, apps, physics)
    chosen = load_scenario(scenario, loaded)
    played = Played(loaded, chosen, parse_seeds(seeds), entrant)
    with progress("playing twice", 1, console):
        found = counterfactual(played, Otherwise(at, minutes, changes))
    title = f"{chosen.name} under {controller}, from minute {at} to the end, per seed"
    rows = [
        (one.figure, f"{one.as_it_was:,.1f}", f"{one.changed:,.1f}", _signed(one.difference))
        for one in found
    ]
    console.print(table(title, ("figure", "as it was", "changed", "difference [95 %]"), rows))
    print_line(console, _verdict(found[-1], len(played.seeds)))
    if json is not None:
        given = {
            "--scenario": scenario, "--controller": controller, "--seeds": seeds, "--at": at,
            "--minutes": minutes, "--apps": apps, "--cluster": cluster, "--physics": physics,
        }  # fmt: skip
        command = command_line("hirl counterfactual", given)
        command += "".join(f" --change {text}" for text in change)
        write_json(json, {"command": command, "differences": found})
        print_line(console, f"JSON: {json}")


def _signed(found: Interval) -> str:
    if math.isnan(found.low):
        return f"{found.value:+,.1f}"
    return f"{found.value:+,.1f} [{found.low:+,.1f}, {found.high:+,.1f}]"


def _verdict(objective: Difference, seeds: int) -> str:
    found = objective.difference
    if math.isnan(found.low):
        return f"J {found.value:+,.1f} in this one seed"
    if seeds < FEW_SEEDS:
        return f"with fewer than {FEW_SEEDS} seeds intervals are too narrow to judge J by"
    if found.low <= 0.0 <= found.high:
        return "J is not different beyond doubt"
    return f"J is {'lower' if found.value < 0 else 'higher'} beyond doubt"

"""Options whose help lists controllers and scenarios. Listing them imports the slow models."""

from typing import Annotated

import typer

from models.compare.catalogue import ENTRANTS
from models.sim.config.scenario import scenario_names

ControllerOption = Annotated[
    str, typer.Option("--controller", metavar="C", help=f"One of {', '.join(ENTRANTS)}.")
]
ScenarioOption = Annotated[
    str,
    typer.Option(
        "--scenario",
        metavar="S",
        help=f"A path to a scenario file, or one of {', '.join(scenario_names())}.",
    ),
]

"""`hirl calibrate`: tune controllers by the same search, and store their parameters."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from models.compare.calibrate import Setting, calibrate, in_processes, tuning_scenarios
from models.compare.families import FAMILIES, Family, family_of
from models.compare.journal import Journal
from models.compare.workers import cores
from models.control.tuned import FILE, Tuned, load_tuned, store_tuned
from models.inputs.errors import InputError
from models.sim.config.physics import load_sim_cluster, with_apps
from services.cli.commands import examples
from services.cli.options import ClusterOption, JsonOption, PhysicsOption, writable_file
from services.cli.output import Cell, progress, table, write_json, writing

_FIRST_SEED = 1000
"""Tuning uses other seeds than comparisons, whose seeds begin at 0."""
_ALL = ",".join(FAMILIES)
_CORES = cores()
_CALM = "tune-calm"
_SLACK = 0.02
"""Share by which J may exceed that of the controller of `--calm-within`."""

ControllersOption = Annotated[
    str,
    typer.Option("--controllers", metavar="A,B", help=f"Some of {_ALL}; all when not given."),
]
BudgetOption = Annotated[
    int, typer.Option("--budget", min=1, metavar="N", help="Parameter sets tried per controller.")
]
AppsOption = Annotated[int, typer.Option("--apps", min=5, metavar="N", help="Apps of the cluster.")]
SeedsOption = Annotated[
    int, typer.Option("--seeds", min=1, metavar="N", help="Seeds of each scenario.")
]
WorkersOption = Annotated[
    int, typer.Option("--workers", min=1, metavar="N", help="Processes; one per core by default.")
]
JournalOption = Annotated[
    Path | None,
    typer.Option(
        "--journal",
        metavar="FILE",
        callback=writable_file,
        help="Store evaluations in this file, and resume from it.",
    ),
]
WithinOption = Annotated[
    str | None,
    typer.Option(
        "--calm-within",
        metavar="C",
        help=f"On the calm scenario allow at most {_SLACK:.0%} more J than this controller, "
        "which must be tuned already: gains in bad times must not cost anything on calm days.",
    ),
]
OutOption = Annotated[
    Path,
    typer.Option(
        "--out", metavar="FILE", callback=writable_file, help="File of the tuned parameters."
    ),
]


@examples(
    "hirl calibrate --controllers pid,rules --budget 60",
    "hirl calibrate --apps 155 --budget 3 --out tuned.json",
)
def calibrate_command(
    controllers: ControllersOption = _ALL,
    budget: BudgetOption = 16,
    apps: AppsOption = 1550,
    seeds: SeedsOption = 2,
    workers: WorkersOption = _CORES,
    cluster: ClusterOption = None,
    physics: PhysicsOption = None,
    journal: JournalOption = None,
    out: OutOption = FILE,
    calm_within: WithinOption = None,
    json: JsonOption = None,
) -> None:
    """Tune controllers on scenarios of their own, all by the same search and objective.

    The objective is the mean of J over the tuning scenarios. An interrupted run resumes from its
    journal.
    """
    families = [family_of(name.strip()) for name in controllers.split(",")]
    sim_cluster = with_apps(load_sim_cluster(cluster, physics), apps)
    seed_numbers = tuple(range(_FIRST_SEED, _FIRST_SEED + seeds))
    bounds = {} if calm_within is None else _bounds(calm_within, out)
    setting = Setting(sim_cluster, tuning_scenarios(sim_cluster), seed_numbers, bounds=bounds)
    found = _search(families, setting, budget, workers, Journal(journal))
    # Families that were not tuned now keep their entries in the file.
    with writing(out):
        store_tuned(found, out)
    _show(Console(), found, out)
    if json is not None:
        write_json(json, found)


def _bounds(name: str, out: Path) -> dict[str, float]:
    found = load_tuned(out).get(name)
    if found is None:
        raise InputError(f"calm-within: {name}: not tuned in {out}; tune it first")
    return {_CALM: (1 + _SLACK) * found.by_scenario[_CALM]}


def _search(
    families: list[Family], setting: Setting, budget: int, workers: int, journal: Journal
) -> dict[str, Tuned]:
    found, runs = {}, budget * len(setting.scenarios)
    # One pool for all families: a process compiles or loads its kernels once.
    with in_processes(workers) as runner:
        for family in families:
            with progress(f"tuning {family.name}", runs) as advance:
                found[family.name] = calibrate(
                    family, setting, budget, runner, journal, on_done=lambda: advance(1)
                )
    return found


def _show(console: Console, found: dict[str, Tuned], out: Path) -> None:
    rows: list[tuple[Cell, ...]] = [
        (name, one.default_objective, one.objective, _listed(one.parameters))
        for name, one in found.items()
    ]
    columns = ("controller", "J before", "J tuned", "parameters")
    console.print(table("Tuned", columns, rows))
    console.print(f"stored in {out}", soft_wrap=True, highlight=False)


def _listed(parameters: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in parameters.items())

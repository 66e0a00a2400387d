"""`hirl calibrate`: tune controllers by the same search, and store their parameters."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from models.compare.calibrate import Setting, calibrate, in_processes
from models.compare.families import FAMILIES, Family, family_of
from models.compare.provenance import SETS, SHIPPED, TUNING, outdated, scenarios_of
from models.compare.request import parse_seeds
from models.compare.workers import cores
from models.control.tuned import FILE, Tuned, load_tuned, store_tuned
from models.inputs.errors import InputError
from models.sim.config.physics import load_sim_cluster, with_apps
from services.cli.commands import examples
from services.cli.options import ClusterOption, JsonOption, PhysicsOption, writable_file
from services.cli.output import Cell, progress, table, write_json, writing

_SEEDS = "0-7"
"""Eight: with two, single bad days decided. Comparisons use others, from 10 on."""
_APPS = 155
"""A tenth of the example cluster, so that tuning everything takes about an hour of one core."""
_PER_DIMENSION = 10
_ALL = ",".join(FAMILIES)
_CORES = cores()
_CALM = {SHIPPED: "calm", TUNING: "tune-calm"}
_SLACK = 0.02
"""Share by which J may exceed that of the controller of `--calm-within`."""

ControllersOption = Annotated[
    str,
    typer.Option("--controllers", metavar="A,B", help=f"Some of {_ALL}; all when not given."),
]
PerDimensionOption = Annotated[
    int,
    typer.Option(
        "--per-dimension",
        min=1,
        metavar="N",
        help="Parameter sets tried for each parameter that a controller has.",
    ),
]
ScenariosOption = Annotated[
    str,
    typer.Option(
        "--scenarios",
        metavar="|".join(SETS),
        help="Tune on the scenarios of comparisons, or on those in models/compare/tuning.",
    ),
]
AppsOption = Annotated[int, typer.Option("--apps", min=5, metavar="N", help="Apps of the cluster.")]
SeedsOption = Annotated[str, typer.Option("--seeds", metavar="0-7", help="Seeds of each scenario.")]
WorkersOption = Annotated[
    int, typer.Option("--workers", min=1, metavar="N", help="Processes; one per core by default.")
]
StorageOption = Annotated[
    Path,
    typer.Option(
        "--storage",
        metavar="FILE",
        callback=writable_file,
        help="File of all evaluations; a search that was stopped continues from it.",
    ),
]
CheckOption = Annotated[
    bool,
    typer.Option(
        "--check",
        help="Tune nothing; fail if parameters were tuned for other code or other worlds.",
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
    "hirl calibrate --controllers pid,practitioner",
    "hirl calibrate --per-dimension 1 --seeds 0 --out tuned.json",
    "hirl calibrate --check",
)
def calibrate_command(
    controllers: ControllersOption = _ALL,
    # The defaults are those that the shipped parameters were found with (`tuned.json`).
    scenarios: ScenariosOption = SHIPPED,
    per_dimension: PerDimensionOption = _PER_DIMENSION,
    apps: AppsOption = _APPS,
    seeds: SeedsOption = _SEEDS,
    workers: WorkersOption = _CORES,
    cluster: ClusterOption = None,
    physics: PhysicsOption = None,
    storage: StorageOption = Path(".hirl/calibrate.journal"),
    out: OutOption = FILE,
    calm_within: WithinOption = None,
    check: CheckOption = False,
    json: JsonOption = None,
) -> None:
    """Tune controllers by the same search, on the same scenarios and for the same objective.

    The objective is the mean of J over the scenarios. Each controller gets as many
    evaluations per parameter as the others. An interrupted run continues from its storage.
    """
    if check:
        _check(out)
        return
    families = [family_of(name.strip()) for name in controllers.split(",")]
    sim_cluster = with_apps(load_sim_cluster(cluster, physics), apps)
    chosen = scenarios_of(scenarios, sim_cluster)
    bounds = {} if calm_within is None else _bounds(calm_within, _CALM[scenarios], out)
    setting = Setting(sim_cluster, chosen, parse_seeds(seeds), bounds=bounds)
    found = _search(families, setting, per_dimension, workers, storage, out)
    _show(Console(), found, out)
    if json is not None:
        write_json(json, found)


def _check(out: Path) -> None:
    changed = outdated(out)
    if changed:
        listed = ", ".join(f"{name} (other {what})" for name, what in changed.items())
        raise InputError(f"{out}: not tuned for what is here: {listed}; run hirl calibrate")
    Console().print(f"{out}: tuned for this code and these worlds", soft_wrap=True)


def _bounds(name: str, calm: str, out: Path) -> dict[str, float]:
    found = load_tuned(out).get(name)
    if found is None or calm not in found.by_scenario:
        raise InputError(f"calm-within: {name}: not tuned on {calm} in {out}; tune it first")
    return {calm: (1 + _SLACK) * found.by_scenario[calm]}


def _search(
    families: list[Family],
    setting: Setting,
    per_dimension: int,
    workers: int,
    storage: Path,
    out: Path,
) -> dict[str, Tuned]:
    found = {}
    # One pool for all families: a process compiles or loads its kernels once.
    with in_processes(workers) as runner:
        for family in families:
            trials = per_dimension * len(family.ranges)
            with progress(f"tuning {family.name}", trials) as advance:
                found[family.name] = calibrate(
                    family, setting, trials, runner, storage, on_done=lambda: advance(1)
                )
            # At once: a run takes an hour. Families that are not tuned keep their entries.
            with writing(out):
                store_tuned({family.name: found[family.name]}, out)
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

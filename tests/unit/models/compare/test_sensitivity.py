"""A cell changes what it says and nothing else, and its figures are those of its rows."""

import math
import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from models.compare.request import Options, Request, request_of
from models.compare.sensitivity import (
    BASE,
    Cell,
    CellTable,
    cell_figures,
    choose_cells,
    jobs_of_cell,
    load_cells,
)
from models.inputs.errors import InputError
from models.sim.config.physics import load_sim_cluster, with_physics
from models.sim.population.generate import generate
from models.sim.results.summary import Result

CELLS = load_cells()
EXAMPLE = load_sim_cluster()


def flat(value: Any, path: str = "") -> dict[str, Any]:
    """Every number and word of a cluster by its path."""
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, list | tuple):
        parts = dict(enumerate(value)).items()
    else:
        return {path: value}
    return {k: v for key, part in parts for k, v in flat(part, f"{path}.{key}").items()}


def cell(name: str) -> Cell:
    return next(one for one in CELLS if one.name == name)


def request(**options: Any) -> Request:
    given = {"controllers": "hpa:0.6", "against": "hpa", "scenarios": "calm,cascade"}
    return request_of(Options(**{**given, "seeds": "10-11", "apps": 30, **options}))


def row(scenario: str, controller: str, seed: int, p0: float, node_hours: float) -> Result:
    names = set(Result.__struct_fields__) - {"scenario", "controller", "seed"}
    figures: dict[str, Any] = dict.fromkeys(names, 0.0) | {
        "violation_minutes": {"P0": p0, "P1": 0.0, "P2": 0.0, "P3": 0.0},
        "node_hours": node_hours,
        "objective": 10 * p0 + node_hours,
    }
    return Result(scenario=scenario, controller=controller, seed=seed, **figures)


@pytest.mark.parametrize("one", CELLS, ids=lambda one: one.name)
def test_a_shipped_cell_changes_the_fields_it_names_and_no_other(one: Cell) -> None:
    shapes = {
        re.compile(r"\.physics\." + re.escape(path).replace(r"\*", "[^.]+")): value
        for path, value in one.changes.items()
    }
    before, after = (
        flat(msgspec.to_builtins(cluster)) for cluster in (EXAMPLE, one.applied_to(EXAMPLE))
    )
    named: set[re.Pattern[str]] = set()
    for path, value in after.items():
        wanted = {shape: want for shape, want in shapes.items() if shape.fullmatch(path)}
        assert value == next(iter(wanted.values()), before[path])
        named |= wanted.keys()
    assert named == shapes.keys()


def test_only_cells_with_the_shipped_values_change_nothing() -> None:
    same = [one.name for one in CELLS if one.applied_to(EXAMPLE) == EXAMPLE]
    assert same == ["saturation-0.2", "window-60"]


def test_a_quota_holds_for_every_pool() -> None:
    pools = cell("quota-3").applied_to(EXAMPLE).physics.pools
    assert {pool.max_nodes for pool in pools.values()} == {3.0}


@pytest.mark.parametrize("seconds", [15, 60, 120])
def test_pods_of_a_cell_take_as_long_to_start_as_its_name_says(seconds: int) -> None:
    cluster = cell(f"pod-start-{seconds}").applied_to(EXAMPLE)
    apps, start = generate(cluster).apps, cluster.physics.pod_start
    mean = math.exp(start.sigma**2 / 2)
    boot = (start.boot_s + start.warm_up_s) * apps.boot * mean
    image = (1 - start.image_cached_share) * start.image_pull_s * apps.image_pull * mean
    total = float(np.mean(boot + image)) + start.readiness_period_s / 2
    assert total == pytest.approx(seconds, rel=0.03)


@pytest.mark.parametrize(
    "path", ["metrics.windows_s", "metric.window_s", "pools.*.quota", "metrics"]
)
def test_a_change_of_a_field_that_does_not_exist_is_refused(path: str) -> None:
    wrong = Cell(name="wrong", changes={path: 1.0}, source="nowhere")
    with pytest.raises(InputError, match="cells: wrong: "):
        wrong.applied_to(EXAMPLE)


def test_a_cell_that_does_not_fit_the_cluster_is_named() -> None:
    late = with_physics(EXAMPLE, metrics=replace(EXAMPLE.physics.metrics, lag_s=30))
    with pytest.raises(InputError, match=r"cells: window-120: metrics.window_s .* --cells"):
        cell("window-120").applied_to(late)


def test_names_of_cells_are_distinct() -> None:
    one = Cell(name=BASE, changes={}, source="x")
    with pytest.raises(ValueError, match=f"expected distinct names, got {BASE} twice"):
        CellTable(cells=(one,))


def test_the_base_comes_first_and_cells_keep_the_order_of_the_table() -> None:
    names = [one.name for one in choose_cells("no-grace, window-15")]
    assert names == [BASE, "window-15", "no-grace"]
    assert [one.name for one in choose_cells(None)] == [BASE, *(one.name for one in CELLS)]
    assert [one.name for one in choose_cells(BASE)] == [BASE]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("no-grac", "cells: no-grac: did you mean no-grace?"),
        ("xyz", f"cells: xyz: expected one of {BASE}, saturation-0, "),
        (" , ", "cells: expected at least one name"),
    ],
)
def test_unknown_cells_are_refused(names: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        choose_cells(names)


def test_results_of_cells_are_kept_apart_and_those_of_the_same_world_shared() -> None:
    asked = request()
    code = dict.fromkeys(asked.entrants, "code")
    base, same, other = (
        jobs_of_cell(one, asked, code)
        for one in (choose_cells(BASE)[0], cell("window-60"), cell("window-15"))
    )
    labels = [{job.label for job in one.jobs} for one in (base, same, other)]
    assert labels[0] == labels[1]
    assert not labels[0] & labels[2]
    assert base.world_hash == same.world_hash != other.world_hash
    assert {job.cluster.physics.metrics.window_s for job in other.jobs} == {15.0}


def test_figures_are_ratios_of_sums_and_mark_a_higher_objective() -> None:
    asked = request()
    rows = [
        row(scenario, controller, seed, p0, hours)
        for scenario in ("calm", "cascade")
        for seed in (10, 11)
        for controller, p0, hours in (("hpa:0.6", 4.0, 90.0), ("hpa", 2.0, 100.0))
    ]
    (found,) = cell_figures(cell("no-grace"), rows, asked)
    assert (found.cell, found.controller) == ("no-grace", "hpa:0.6")
    assert found.p0_ratio.value == pytest.approx(2.0)
    assert found.node_hours_ratio.value == pytest.approx(0.9)
    assert found.objective_ratio.value == pytest.approx(130 / 120)
    assert found.behind
    assert found.ours.p0_minutes == 8.0
    assert found.theirs.node_hours == 200.0


def test_a_file_with_an_unknown_field_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "cells.yaml"
    file.write_text("cells: [{name: a, change: {}, source: x}]")
    with pytest.raises(InputError, match="unknown field change, did you mean changes"):
        load_cells(file)

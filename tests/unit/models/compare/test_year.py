"""The year's mix counts each day as often as its weight says."""

from pathlib import Path

import pytest

from models.compare.year import Weight, Year, load_year, year_standings
from models.inputs.errors import InputError
from models.sim.config.physics import load_sim_cluster
from models.sim.config.scenario import day_names, load_scenario
from models.sim.config.timeline import minute_of_week
from models.sim.results.summary import Result

FIELDS = {
    name: 0.0 for name in Result.__struct_fields__ if name not in ("scenario", "controller", "seed")
}


def row(day: str, controller: str, seed: int, p0: float, node_hours: float) -> Result:
    figures = FIELDS | {
        "violation_minutes": {"P0": p0, "P1": 0.0, "P2": 0.0, "P3": 0.0},
        "pw": 10 * p0,
        "node_hours": node_hours,
        "objective": 10 * p0 + node_hours,
    }
    return Result(scenario=day, controller=controller, seed=seed, **figures)  # type: ignore[arg-type]


YEAR = Year(
    days=(
        Weight(day="quiet", days=360, why="most days"),
        Weight(day="loud", days=5, why="some days"),
    )
)


def test_a_day_counts_as_often_as_it_occurs() -> None:
    rows = [
        *(row("quiet", "a", seed, 0, 100) for seed in (7, 8)),
        *(row("loud", "a", seed, 20, 200) for seed in (7, 8)),
        *(row("quiet", "b", seed, 1, 50) for seed in (7, 8)),
        *(row("loud", "b", seed, 0, 400) for seed in (7, 8)),
    ]
    a, b = year_standings(rows, YEAR, ("a", "b"), "a")
    assert a.node_hours.value == 360 * 100 + 5 * 200
    assert a.violation_minutes["P0"].value == 5 * 20
    assert b.p0_ratio.value == pytest.approx(360 / 100)
    assert b.node_hours_ratio.value == pytest.approx(20_000 / 37_000)
    assert b.objective_difference.value == pytest.approx((20_000 + 3600) / (37_000 + 1000) - 1)


def test_seeds_are_paired_whatever_their_order() -> None:
    rows = [row(day, "a", seed, seed, 100) for day in YEAR.names for seed in (1, 2)]
    rows += [row(day, "b", seed, 2 * seed, 100) for day in YEAR.names for seed in (2, 1)]
    _, b = year_standings(rows, YEAR, ("a", "b"), "a")
    assert (b.p0_ratio.low, b.p0_ratio.high) == (2, 2)


def test_the_shipped_weights_cover_every_shipped_day() -> None:
    assert set(load_year().names) == set(day_names())


@pytest.mark.parametrize("name", day_names())
def test_a_shipped_day_is_a_whole_day_from_midnight(name: str) -> None:
    cluster = load_sim_cluster()
    day = load_scenario(name, cluster)
    assert day.name == name
    assert day.length_minutes == 1440
    assert minute_of_week(day.start) % 1440 == 0
    # A seed may move an event, but not out of the day.
    for event in day.events:
        assert event.at_minute + event.jitter_minutes < 1440


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("days: [{day: a, days: 364, why: x}]", "days: expected a sum of 365, got 364"),
        (
            "days: [{day: a, days: 200, why: x}, {day: a, days: 165, why: x}]",
            "expected distinct days, got a twice",
        ),
        ("days: [{day: a, days: 365}]", "why"),
    ],
)
def test_weights_that_are_no_year_are_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "year.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        load_year(file)

"""Families compared at equal cost and at equal violations."""

import pytest

from models.compare.catalogue import entrant_of
from models.compare.families import FAMILIES, HEURISTIC
from models.compare.frontier import Families, KnobPoint, compare_lines
from models.control.tuned import tuned
from models.inputs.errors import InputError
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import load_scenario
from models.sim.world import World

KNOBS = (0.8, 1.0, 1.25)
LINE = ((40.0, 9.0), (20.0, 99.0), (10.0, 999.0))
"""Node-hours and P0 minutes by knob: ten times the violations for each step."""


def line(cost: float = 1.0, violations: float = 1.0) -> list[KnobPoint]:
    return [
        KnobPoint(
            knob=knob,
            scenario=scenario,
            seed=seed,
            node_hours=cost * hours,
            violation_minutes={"P0": violations * p0, "P1": 0.0, "P2": 0.0, "P3": 0.0},
            pw=10 * violations * p0,
            objective=10 * violations * p0 + cost * hours,
        )
        for knob, (hours, p0) in zip(KNOBS, LINE, strict=True)
        for scenario in ("calm", "cascade")
        for seed in range(3)
    ]


def test_a_family_equals_itself() -> None:
    (found,) = compare_lines({"hpa": line()}, "hpa")
    assert found.p0_at_equal_node_hours == pytest.approx(1.0)
    assert found.node_hours_at_equal_p0 == pytest.approx(1.0)
    assert (found.p0_interval.low, found.p0_interval.high) == pytest.approx((1.0, 1.0))


def test_a_cheaper_family_saves_nodes_and_violates_less() -> None:
    families: Families = {"hpa": line(), "ours": line(cost=0.8)}
    ours = compare_lines(families, "hpa")[1]
    assert ours.node_hours_at_equal_p0 == pytest.approx(0.8)
    assert ours.p0_at_equal_node_hours is not None
    assert ours.p0_at_equal_node_hours < 0.7


def test_what_a_line_does_not_reach_is_not_known() -> None:
    ours = compare_lines({"hpa": line(), "ours": line(cost=0.1)}, "hpa")[1]
    assert ours.p0_at_equal_node_hours is None
    assert ours.node_hours_at_equal_p0 == pytest.approx(0.1)


@pytest.mark.parametrize("name", ["hpa-calibrated", "practitioner", "pid", "heuristic:calendar"])
def test_a_knob_multiplies_all_targets(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    family = FAMILIES[name.partition(":")[0]]
    given: dict[str, float] = {}

    def make(self: object, world: object, values: dict[str, float]) -> None:  # noqa: ARG001
        given.update(values)

    monkeypatch.setattr(type(family), "make", make)
    cluster = with_apps(load_sim_cluster(), 20)
    entrant_of(f"{name}~0.5").controller(World(cluster, load_scenario("calm", cluster), [0]))
    before = {**family.defaults(), **tuned(family.name)}
    assert family.cost_knob
    for field, value in before.items():
        factor = 0.5 if field in family.cost_knob else 1.0
        assert given[field] == pytest.approx(factor * value)


@pytest.mark.parametrize(
    "name", ["static~0.9", "hpa~0.9", "pid~x", "pid~0", f"{HEURISTIC}:calendar/no-budget~0.9"]
)
def test_a_knob_that_means_nothing_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="expected"):
        entrant_of(name)

"""A changed decision is compared with the run as it was; no change makes no difference."""

import msgspec
import pytest

from models.compare.catalogue import entrant_of
from models.compare.counterfactual import Change, Otherwise, counterfactual, parse_change
from models.compare.fork import Played
from models.inputs.errors import InputError
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import Scenario
from tests.unit.models.control.control_helpers import SPIKE

RUN = Played(
    with_apps(load_sim_cluster(), 155),
    Scenario(
        name="short", shows="What the test needs.", start="Mon 10:00", length_minutes=12,
        warmup_minutes=3, events=(SPIKE,),
    ),
    (0, 1),
    entrant_of("heuristic:calendar"),
)  # fmt: skip


CALM = RUN._replace(scenario=msgspec.structs.replace(RUN.scenario, events=(), length_minutes=20))


def differences(at: int, minutes: int, *changes: str, run: Played = RUN) -> dict[str, float]:
    parsed = tuple(parse_change(text) for text in changes)
    found = counterfactual(run, Otherwise(at, minutes, parsed))
    return {one.figure: one.difference.value for one in found}


def test_a_factor_of_1_makes_no_difference() -> None:
    found = differences(2, 5, "headroom=1", "need.payments=1", "spare=1")
    assert set(found.values()) == {0.0}


def test_fewer_pods_violate_more_and_j_counts_both_sides() -> None:
    found = differences(1, 8, "need=0.5")
    assert found["weighted minutes"] > 0
    assert found["J"] == pytest.approx(found["weighted minutes"] + found["node-hours"])


def test_the_change_ends_with_its_minutes() -> None:
    short, long = (differences(1, minutes, "need=0.5")["weighted minutes"] for minutes in (1, 8))
    assert short < long


def test_a_change_of_one_domain_shows_mostly_there() -> None:
    found = differences(1, 8, "need.payments=0.5")
    others = [value for name, value in found.items() if name.startswith("minutes of ")]
    assert found["minutes of payments"] == max(others)


def test_more_spare_nodes_cost_node_hours() -> None:
    # In a calm hour: a spike takes every node of the quota anyway.
    assert differences(0, 20, "spare=3", run=CALM)["node-hours"] > 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("headrom=1.2", "did you mean headroom"),
        ("headroom", "expected a factor from 0.1 to 10"),
        ("headroom=nan", "expected a factor"),
        ("spare.payments=2", "leave out .payments"),
    ],
)
def test_a_bad_change_says_what_to_write(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_change(text)


def test_unknown_domains_and_minutes_are_refused() -> None:
    with pytest.raises(InputError, match="expected one of payments"):
        counterfactual(RUN, Otherwise(1, 1, (Change("need", "paymnts", 1.5),)))
    with pytest.raises(InputError, match="expected a minute before 12"):
        counterfactual(RUN, Otherwise(12, 1, ()))

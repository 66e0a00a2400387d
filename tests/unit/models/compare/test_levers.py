"""Oracles of single levers know the future, and move one thing."""

import numpy as np
import pytest

from models.compare import levers
from models.compare.catalogue import Entrant
from models.compare.levers import LeverOracle, _latched, _most_ahead
from models.control.residual import neutral
from models.sim.config.events import ZoneLoss
from tests.unit.models.control.control_helpers import SPIKE, world_of

ENTRANTS = {name: one for name, one in vars(levers).items() if isinstance(one, Entrant)}


def test_most_ahead_is_the_highest_of_this_minute_and_the_next_ones() -> None:
    rps = np.array([[[1.0], [3.0], [2.0], [5.0]]], np.float32)
    assert _most_ahead(rps, 1)[0, :, 0].tolist() == [3.0, 3.0, 5.0, 5.0]


def test_a_rise_is_remembered_for_some_minutes() -> None:
    now = np.array([[[False], [True], [False], [False]]])
    assert _latched(now, 1)[0, :, 0].tolist() == [False, True, True, False]


def test_an_oracle_knows_a_spike_before_it_begins_and_a_zone_before_it_is_lost() -> None:
    loss = ZoneLoss(name="b-down", zone="b", at_minute=8, length_minutes=1)
    world = world_of(SPIKE, loss, minutes=12)
    oracle = levers.headroom.controller(world)
    assert isinstance(oracle, LeverOracle)
    known = oracle._known
    warmup = 3
    assert known.rising[0, warmup - 1, 0]
    payments = world.population.apps.domain == 0
    assert (known.app[0, warmup - 1, payments] > 2.0).any()
    assert (known.app_soon[0, warmup - 1] < 2.0).all()
    assert not known.losing[0, 0]
    assert known.losing[0, warmup + 8]


@pytest.mark.parametrize("name", ENTRANTS)
def test_a_lever_moves_one_part_of_the_residual(name: str) -> None:
    world = world_of(SPIKE)
    oracle = ENTRANTS[name].controller(world)
    assert isinstance(oracle, LeverOracle)
    found = oracle._lever(oracle._known.at(2), world)
    plain = neutral(1)
    moved = [
        field for field, value in found._asdict().items()
        if value.shape != getattr(plain, field).shape
    ]  # fmt: skip
    assert len(moved) == (2 if name == "belief_oracle" else 1)

"""Apps whose containers die again and again get more of them."""

import copy

import numpy as np
import pytest

from models.cluster import rows
from models.control.hierarchy import Heuristic, HeuristicState
from tests.unit.models.control.control_helpers import (
    INVENTORY,
    Counts,
    Plant,
    settled,
)


def _after(
    plant: Plant, controller: Heuristic, state: HeuristicState, up: float, restarts: int
) -> Counts:
    """[A] replicas planned while this share of the pods is ready, after so many restarts each."""
    plant, state = copy.deepcopy((plant, state))
    replicas = plant.status[:, rows.REPLICAS]
    plant.status[:, rows.READY] = np.ceil(up * replicas)
    plant.status[:, rows.STARTING] = replicas - plant.status[:, rows.READY]
    plant.status[:, rows.RESTARTS] += restarts * replicas
    plan, _ = controller.step(plant.observe(), None, state)
    planned: Counts = plan.replicas[0].copy()
    return planned


def test_apps_whose_containers_die_again_and_again_get_more_of_them() -> None:
    plant, controller, state = settled(nodes=20)
    before = plant.status[0, rows.REPLICAS]
    highest = INVENTORY.priority[INVENTORY.domain] == 0
    after = _after(plant, controller, state, up=0.75, restarts=1)
    assert (after > before)[highest].all()
    assert (after <= 1.7 * before).all()


@pytest.mark.parametrize(("up", "restarts"), [(0.75, 0), (1.0, 1)])
def test_pods_that_only_start_or_only_restarted_are_not_replaced(up: float, restarts: int) -> None:
    plant, controller, state = settled(nodes=20)
    np.testing.assert_array_equal(
        _after(plant, controller, state, up, restarts), plant.status[0, rows.REPLICAS]
    )

"""Turns among apps, for any number of apps."""

import numpy as np
import pytest

from models.control.change_history import NO_APP, rotate_order, workspace


@pytest.mark.parametrize("apps", [1, 2, 40, 130, 131, 262, 400])
def test_each_app_comes_first_once_in_as_many_ticks_as_there_are_apps(apps: int) -> None:
    work = workspace(1, apps)
    active, domain = np.ones(apps, np.int32), np.zeros(apps, np.int32)
    first = []
    for tick in range(1000, 1000 + apps):
        rotate_order(active, domain, tick, work)
        assert sorted(work.order) == list(range(apps))
        first.append(int(work.order[0]))
    assert sorted(first) == list(range(apps))


def test_an_app_that_is_not_declared_has_no_turn() -> None:
    work = workspace(2, 6)
    active = np.array([1, 0, 1, 1, 0, 1], np.int32)
    rotate_order(active, np.array([0, 0, 0, 1, 1, 1], np.int32), 7, work)
    assert sorted(work.order[:4]) == [0, 2, 3, 5]
    assert (work.order[4:] == NO_APP).all()

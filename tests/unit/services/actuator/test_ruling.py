"""Ruling on a plan of many apps."""

from collections import Counter

import numpy as np
import pytest
from msgspec.structs import replace

from services.actuator import ruling
from tests.service_helpers import APPS, granted
from tests.unit.services.actuator.actuator_helpers import Alone


class CountingNumpy:
    """Numpy, with its calls counted: each of them works on the columns of all apps."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> object:
        self.calls[name] += 1
        return getattr(np, name)


def calls(monkeypatch: pytest.MonkeyPatch, changed: int) -> Counter[str]:
    """What is computed for a plan that changes so many apps."""
    alone, counting = Alone(), CountingNumpy()
    plan = alone.plans[1]
    replicas = [old + (index < changed) for index, old in enumerate(plan.replicas_before)]
    same = {name: getattr(plan, f"{name}_before") for name in ("cpu_request", "memory_request")}
    alone.take(granted(0), alone.frames[1])
    with monkeypatch.context() as patch:
        patch.setattr(ruling, "np", counting)
        done = alone.decide(replace(plan, replicas=replicas, **same))
    assert len(done.apps) == changed
    return counting.calls


def test_columns_of_all_apps_are_computed_once_however_many_apps_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Once per changed app would be quadratic: seconds in a domain of 10,000 apps.
    assert calls(monkeypatch, 1) == calls(monkeypatch, len(APPS))

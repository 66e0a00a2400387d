"""A saved state whose columns are not those of its apps is refused: kernels check no index."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from services._kit.errors import Refused
from tests.service_helpers import APPS, DOMAIN
from tests.unit.services.actuator.actuator_helpers import System

ARRAYS = {"aggregator": "estimator", "soldier": "memory", "actuator": "history"}
"""By service: the field of its state that kernels update."""


def shortened(arrays: Any) -> Iterator[Any]:
    """The same named tuple, with one app less in one of its arrays at a time."""
    for name, part in arrays._asdict().items():
        if isinstance(part, tuple):
            shorter = list(shortened(part))
        else:
            has_apps = part.ndim > 1 and part.shape[-1] == len(APPS)
            shorter = [part[..., 1:].copy()] if has_apps else []
        yield from (arrays._replace(**{name: one}) for one in shorter)


@pytest.mark.parametrize("service", ARRAYS)
def test_a_state_with_a_column_too_few_is_refused(service: str) -> None:
    system = System()
    system.apply()
    engine = system.bus._processes[service].engine
    assert engine is not None
    handler = engine.handler
    state: Any = engine._store.get(DOMAIN)
    handler.load(DOMAIN, handler.save(state))
    found = list(shortened(getattr(state, ARRAYS[service])))
    assert found
    for arrays in found:
        with pytest.raises(Refused):
            handler.load(DOMAIN, handler.save(replace(state, **{ARRAYS[service]: arrays})))


@pytest.mark.parametrize("name", ["pods", "pods_tick"])
def test_pods_of_an_app_too_few_are_refused(name: str) -> None:
    system = System()
    system.apply()
    engine = system.bus._processes["aggregator"].engine
    assert engine is not None
    state: Any = engine._store.get(DOMAIN)
    shorter = np.ascontiguousarray(getattr(state, name)[..., 1:])
    with pytest.raises(Refused):
        engine.handler.load(DOMAIN, engine.handler.save(replace(state, **{name: shorter})))

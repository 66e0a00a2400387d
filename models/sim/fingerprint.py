"""A fingerprint of the world, so that a comparison across two different worlds is noticed.

It covers the cluster, the scenario, the population and the meaning of the simulator's code:
comments, docstrings and formatting do not count.
"""

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from numpy.typing import NDArray

from models.cluster.arrays import F32
from models.jit import meaning
from models.sim.apps import Population
from models.sim.describe.physics import SimCluster
from models.sim.describe.scenario import Scenario
from models.sim.population.fitted import FITTED


def world_hash(cluster: SimCluster, scenario: Scenario, population: Population, replay: F32) -> str:
    """Sixteen hexadecimal digits that change when the world does.

    Of a replayed trace the values count, not the place of its file.
    """
    digest = hashlib.sha256(_code_digest().encode())
    digest.update(FITTED.read_bytes())
    digest.update(msgspec.json.encode(cluster))
    nameless = [msgspec.structs.replace(entry, file="") for entry in scenario.replay]
    digest.update(msgspec.json.encode(msgspec.structs.replace(scenario, replay=tuple(nameless))))
    digest.update(replay.tobytes())
    columns: dict[str, NDArray[Any]] = population.apps._asdict() | population.calls._asdict()
    for name, column in columns.items():
        digest.update(name.encode())
        digest.update(column.tobytes())
    return digest.hexdigest()[:16]


@cache
def _code_digest() -> str:
    digest, models = hashlib.sha256(), Path(__file__).parents[1]
    for package in ("cluster", "sim"):
        for file in sorted((models / package).rglob("*.py")):
            digest.update(meaning(file).encode())
    return digest.hexdigest()

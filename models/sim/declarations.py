"""What the owners of simulated apps declare: bounds and targets, and what load tests told them.

The true saturation of an app stays inside the simulator. A load test runs with other requests than
production sends, months ago, on other machines, so what it found differs from the truth by a
log-normal error. It is drawn per app and seed: results over many seeds do not depend on one lucky
draw for a large app.
"""

from collections.abc import Sequence

import numpy as np

from models.cluster.arrays import F32, F64, I64
from models.cluster.inventory import Inventory, declare_cluster
from models.jit import kernel
from models.sim.apps import Apps, Population
from models.sim.config.physics import Declarations, SimCluster
from models.sim.draws import Purpose, as_normal, draw, stream

_SATURATION = int(Purpose.DECLARED_SATURATION)


def declare(population: Population, cluster: SimCluster, seeds: Sequence[int]) -> Inventory:
    """The inventory that the owners of these apps would declare, for one environment per seed."""
    apps = population.apps
    return declare_cluster(cluster)._replace(
        domain=apps.domain,
        tier=apps.tier,
        min_replicas=apps.min_replicas,
        max_replicas=apps.max_replicas,
        latency_target=apps.latency_target,
        saturation=_declared_saturation(apps, cluster.physics.declarations, seeds),
        request_mix=apps.request_mix,
    )


def true_saturation(apps: Apps) -> F32:
    """[A] CPU used per core requested when all workers are busy; below 1 where requests wait."""
    busy = apps.cpu_seconds / (apps.cpu_seconds + apps.io_seconds)
    return np.asarray(apps.workers_per_core * busy, np.float32)


def _declared_saturation(apps: Apps, given: Declarations, seeds: Sequence[int]) -> F32:
    """[E, A]."""
    declared = np.ones((len(seeds), apps.domain.size), np.float32)
    if given.saturation == "none":
        # What the wire carries when nothing is declared.
        return declared
    errors = np.zeros(declared.shape)
    _draw_errors(np.array(seeds, np.int64), errors)
    return (true_saturation(apps) * np.exp(given.saturation_sigma * errors)).astype(np.float32)


@kernel
def _draw_errors(seeds: I64, errors: F64) -> None:
    for e in range(seeds.size):
        errors_of = stream(seeds[e], _SATURATION)
        for app in range(errors.shape[1]):
            errors[e, app] = as_normal(draw(errors_of, app, 0, 0))

"""Owners declare what load tests told them, and the truth stays in the simulator."""

import numpy as np
import pytest

from models.baselines.hpa.simulated import hpa_of
from models.cluster import rows
from models.cluster.arrays import F32, I32
from models.cluster.inventory import only_domain
from models.compare.hpa_worlds import HpaWorld
from models.sim.config.physics import Declarations, with_physics
from models.sim.declarations import declare, true_saturation
from models.sim.world import World
from models.validate.worlds import plain_apps, still_cluster, still_scenario

APPS = 2000
APP_KINDS = plain_apps(APPS, io_seconds=np.linspace(0, 1e-4, APPS))


def declared(sigma: float, seeds: tuple[int, ...] = (1, 2), **given: str) -> F32:
    declarations = Declarations(saturation_sigma=sigma, **given)  # type: ignore[arg-type]
    cluster = with_physics(still_cluster(pods=APPS), declarations=declarations)
    return declare(APP_KINDS, cluster, seeds).saturation


@pytest.mark.parametrize("sigma", [0.1, 0.2, 0.4])
def test_the_declared_saturation_has_a_log_normal_error(sigma: float) -> None:
    errors = np.log(declared(sigma) / true_saturation(APP_KINDS.apps))
    assert errors.std() == pytest.approx(sigma, rel=0.05)
    assert errors.mean() == pytest.approx(0, abs=0.02)


def test_errors_differ_by_app_and_seed_and_repeat() -> None:
    found = declared(0.2)
    assert len(np.unique(found / true_saturation(APP_KINDS.apps))) > 0.99 * found.size
    assert np.corrcoef(np.log(found))[0, 1] < 1
    # A seed declares the same, alone and beside others.
    np.testing.assert_array_equal(found[1], declared(0.2, seeds=(2,))[0])


def test_without_an_error_the_truth_is_declared_and_without_a_load_test_one() -> None:
    np.testing.assert_allclose(declared(0.0)[0], true_saturation(APP_KINDS.apps), rtol=1e-6)
    assert (declared(0.2, saturation="none") == 1).all()


def test_each_environment_is_scaled_by_its_own_declaration() -> None:
    def replicas(seeds: list[int]) -> I32:
        world = World(still_cluster(pods=20), still_scenario(), seeds, plain_apps(20, own_rps=20e3))
        hpa = HpaWorld(world, hpa_of(world))
        hpa.run(40)
        return world.state.status[:, rows.REPLICAS].copy()

    both = replicas([1, 2])
    np.testing.assert_array_equal(both[0], replicas([1])[0])
    np.testing.assert_array_equal(both[1], replicas([2])[0])


def test_the_inventory_of_a_domain_keeps_its_environments() -> None:
    cluster = still_cluster(pods=APPS)
    inventory = declare(APP_KINDS, cluster, (1, 2))
    members = np.array([3, 5])
    part = only_domain(inventory, members)
    np.testing.assert_array_equal(part.saturation, inventory.saturation[:, members])

"""A breach is blamed on the part that caused it; the shares divide what was avoidable."""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import msgspec
import numpy as np
import pytest

from models.cluster.arrays import F32, F64, I32
from models.compare.blame import PARTS, Breach, Part, Replays, blame, shapley, shared
from models.compare.catalogue import Entrant, entrant_of
from models.compare.fork import Played
from models.compare.run import run
from models.control.budget import CommanderDecision
from models.control.commander import Commander
from models.control.hierarchy import Heuristic
from models.control.parameters import Parts
from models.control.residual import Advisers, AppFactors, no_factors
from models.control.tuned import tuned_parameters
from models.forecaster.simulated.catalogue import oracle_of
from models.forecaster.simulated.future import future_of
from models.forecaster.simulated.oracle import Oracle
from models.inputs.errors import InputError
from models.sim.config.physics import (
    SCHEDULINGS,
    SimCluster,
    load_sim_cluster,
    with_apps,
    with_physics,
    with_scheduling,
)
from models.sim.config.scenario import Scenario
from models.sim.world import World
from tests.unit.models.control.control_helpers import SPIKE

CLUSTER = with_apps(load_sim_cluster(), 155)
"""As many apps as it takes for the cloud to start nodes at all: its rate grows with the apps."""
RISE = msgspec.structs.replace(SPIKE, factor=1.2, hold_minutes=12)


WHOLE = Breach(0, 16)


def played(entrant: Entrant, cluster: SimCluster = CLUSTER) -> Played:
    scenario = Scenario(
        name="short", shows="What the test needs.", start="Mon 10:00", length_minutes=40,
        warmup_minutes=3, events=(RISE,),
    )  # fmt: skip
    return Played(cluster, scenario, (0, 1), entrant)


def entrant_with(make: Callable[[World], Heuristic], forecaster: Any = oracle_of) -> Entrant:
    return Entrant(make, forecaster, SCHEDULINGS["priority"])


def tuned(world: World, advisers: Advisers | None = None) -> Heuristic:
    return Heuristic(
        world.inventory, world.layout.pools, tuned_parameters(), Parts(), advisers or Advisers()
    )


class Exaggerating(Oracle):
    """Foresees four times the traffic that comes, so that two domains take what others need."""

    def ahead(self, minute: int) -> tuple[tuple[F32, F32], tuple[F32, F32]]:
        (domain, peak), apps = super().ahead(minute)
        factor = np.where(np.arange(domain.shape[1]) < 2, np.float32(4), np.float32(1))
        return (domain * factor[:, None, None], peak * factor[:, None]), apps


def exaggerating(world: World) -> Exaggerating:
    return Exaggerating(future_of(world, 6), world.layout.domains, world.cluster.tick_seconds)


class Starving(Commander):
    """Grants the highest priority a fifth of what it should have."""

    def decide(self, *args: Any, **kwargs: Any) -> CommanderDecision:
        decision = super().decide(*args, **kwargs)
        budget = decision.directive.budget
        cores = np.where(self._highest, 0.2 * budget.cores, budget.cores)
        overdraft = np.where(self._highest, 0.0, budget.overdraft)
        less = budget._replace(cores=cores, overdraft=overdraft)
        return decision._replace(directive=decision.directive._replace(budget=less))


def starved(world: World) -> Heuristic:
    other = tuned(world)
    other._commander = Starving(world.inventory, tuned_parameters())
    return other


def too_small(world: World) -> Heuristic:
    def half(status: I32, *_: Any) -> AppFactors:
        need = np.full((status.shape[0], status.shape[2]), 0.5, np.float32)
        return no_factors(len(status))._replace(need=need)

    return tuned(world, Advisers(soldier=half))


SLOW = with_physics(
    CLUSTER,
    provisioner=msgspec.structs.replace(
        CLUSTER.physics.provisioner, launches_per_second=0.05, boot_s=400.0
    ),
)


def test_shares_sum_to_one_and_a_part_that_changes_nothing_has_none() -> None:
    random = np.random.default_rng(0)
    subsets = [frozenset(one) for size in range(5) for one in combinations(PARTS, size)]
    drawn = {ideal: 100.0 - random.uniform(9, 11, 5) * len(ideal) for ideal in subsets}
    costs = {ideal: drawn[ideal - {"commander"}] for ideal in subsets}
    values = shapley(costs)
    assert np.allclose(values["commander"], 0.0)
    total = np.sum(list(values.values()), axis=0)
    assert np.allclose(total, costs[frozenset()] - costs[frozenset(PARTS)])
    assert sum(one.share.value for one in shared(costs).shares) == pytest.approx(1.0)


def test_with_nothing_ideal_the_replay_is_the_run() -> None:
    case = played(entrant_of("heuristic:calendar"))
    # The fork lies within the run, not at its beginning.
    replayed = Replays(case, Breach(34, 40)).cost(frozenset())
    entrant, seen = case.entrant, dict[int, F64]()
    world = World(with_scheduling(CLUSTER, entrant.scheduling), case.scenario, case.seeds)
    weight = np.array([10.0, 4.0, 1.0, 0.3])[world.inventory.priority]
    assert entrant.forecaster is not None

    def on_tick(world: World) -> None:
        seen[world.tick] = world.accounts.domain_minutes @ weight

    run(world, entrant.controller(world), entrant.forecaster(world), on_tick)
    assert np.array_equal(replayed, seen[(3 + 40) * 6] - seen[(3 + 34) * 6])


CALM = played(entrant_of("heuristic:calendar"))
CALM = CALM._replace(scenario=msgspec.structs.replace(CALM.scenario, events=()))


@pytest.mark.parametrize(
    ("part", "case"),
    [
        ("commander", played(entrant_with(starved))),
        ("soldiers", played(entrant_with(too_small))),
        ("provisioner", played(entrant_with(tuned), SLOW)),
        ("forecast", CALM._replace(entrant=entrant_with(tuned, exaggerating))),
    ],
)
def test_a_planted_fault_is_named(part: Part, case: Played) -> None:
    found = blame(case, WHOLE)
    assert found.named == part


def test_a_controller_without_a_commander_cannot_be_blamed() -> None:
    with pytest.raises(InputError, match="expected the heuristic"):
        Replays(played(entrant_of("hpa")), WHOLE)


def test_the_violations_of_the_domains_sum_to_those_of_all() -> None:
    case = played(entrant_of("heuristic:none"))
    whole, *parts = (
        Replays(case, Breach(0, 16, names)).cost(frozenset())
        for names in ((), *((name,) for name in CLUSTER.domain_names))
    )
    assert np.allclose(np.sum(parts, axis=0), whole)
    with pytest.raises(InputError, match="domain: paymnts: expected one of"):
        Replays(case, Breach(0, 16, ("paymnts",)))
    with pytest.raises(InputError, match="expected a part of the 40 minutes"):
        Replays(case, Breach(30, 50))

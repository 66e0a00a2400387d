"""One artefact, untouched, plays clusters that it was not made for."""

from pathlib import Path

import pytest

from models.compare.catalogue import enter
from models.policies.artefact import COMMANDER, SOLDIER
from models.sim.config.events import Target, Traffic
from models.sim.config.physics import SimCluster
from models.sim.config.scenario import Scenario
from models.sim.config.topologies import generate_topology
from models.sim.population.generate import generate
from models.sim.results.summary import Result, summarise
from tests.planted_models import commander_network, soldier_network, trained_folder

SIZES = [(3, 155), (5, 60), (5, 155), (12, 155)]


def results(cluster: SimCluster, controller: str) -> list[Result]:
    """Two seeds of a rise of traffic in the first domain."""
    first = Target(domains=(cluster.domains[0].name,))
    rise = Traffic(name="rise", target=first, at_minute=2, factor=1.8, hold_minutes=6)
    scenario = Scenario(
        name="rise", shows="What the test needs.", start="Tue 11:00", length_minutes=8,
        warmup_minutes=4, events=(rise,),
    )  # fmt: skip
    match = enter(controller, cluster, scenario, (0, 1), generate(cluster))
    return summarise(match.world, controller, match.play())


def entrant(folder: Path, need: float, headroom: float) -> str:
    """Constants for every domain of both levels, from artefacts on disk."""
    soldier = trained_folder(folder / "s", SOLDIER, soldier_network(need))
    commander = trained_folder(folder / "c", COMMANDER, commander_network(headroom=headroom))
    return f"policy:none/commander={commander}+soldier={soldier}"


@pytest.mark.parametrize(("domains", "apps"), SIZES)
def test_a_policy_is_judged_beside_the_heuristic_on_any_topology(
    domains: int, apps: int, tmp_path: Path
) -> None:
    cluster = generate_topology(7, domains, apps)
    assert len(cluster.domains) == domains
    plain = results(cluster, "heuristic:none")
    same = results(cluster, entrant(tmp_path / "same", 1.0, 1.0))
    for ours, theirs in zip(same, plain, strict=True):
        assert (ours.objective, ours.node_hours) == (theirs.objective, theirs.node_hours)
    more = results(cluster, entrant(tmp_path / "more", 1.2, 1.1))
    assert sum(one.budget_overruns or 0 for one in more) == 0
    # The same file is heard in every one of them: more is asked for, and costs more.
    assert sum(one.node_hours for one in more) > sum(one.node_hours for one in plain)
    assert all(0.0 < one.objective < float("inf") for one in more)

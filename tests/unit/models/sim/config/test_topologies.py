"""Generated clusters are valid, differ by seed, and take every shipped scenario."""

from pathlib import Path

import msgspec
import pytest

from models.cluster.description import PRIORITIES, load_cluster
from models.sim.config.adapted import cast_of
from models.sim.config.events import Target, Traffic, ZoneLoss
from models.sim.config.physics import load_sim_cluster, with_physics
from models.sim.config.scenario import day_names, load_scenario, scenario_names
from models.sim.config.topologies import MOST_DOMAINS, generate_topology
from services.cli import main

SEEDS = range(8)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_gives_one_cluster_with_first_and_last_priority(seed: int) -> None:
    cluster = generate_topology(seed)
    assert cluster == generate_topology(seed)
    assert 3 <= len(cluster.domains) <= MOST_DOMAINS
    priorities = {domain.priority for domain in cluster.domains}
    assert {PRIORITIES[0], PRIORITIES[-1]} <= priorities


def test_seeds_and_numbers_change_the_cluster() -> None:
    clusters = [generate_topology(seed, domains=6, apps=300) for seed in SEEDS]
    assert all(len(one.domains) == 6 and one.apps == 300 for one in clusters)
    assert len({tuple(domain.pools for domain in one.domains) for one in clusters}) > 1
    own = {pool.name for one in clusters for pool in one.pools}
    assert "shared" in own
    assert any(
        [domain.pools[0] for domain in one.domains].count(pool.name) > 1
        for one in clusters
        for pool in one.pools
    ), "some neighbours have a pool in common"


@pytest.mark.parametrize("seed", [0, 3])
def test_the_written_files_are_the_cluster_and_valid_for_the_product(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--seed", str(seed), "--domains", "5", "--apps", "100", "--out", str(tmp_path)]
    assert main.run(["world", "generate", *arguments]) == 0
    assert "5 domains" in capsys.readouterr().out
    files = tmp_path / "cluster.yaml", tmp_path / "physics.yaml"
    assert load_sim_cluster(*files) == generate_topology(seed, 5, 100)
    assert load_cluster(files[0]).domain_names == tuple(f"domain-{index}" for index in range(5))
    before = [file.read_bytes() for file in files]
    assert main.run(["world", "generate", *arguments]) == 0
    assert [file.read_bytes() for file in files] == before


@pytest.mark.parametrize("name", [*scenario_names(), *day_names()])
def test_every_shipped_scenario_fits_a_generated_cluster(name: str) -> None:
    for seed in (1, 2):
        cluster = generate_topology(seed, apps=100)
        example = load_scenario(name, load_sim_cluster())
        scenario = load_scenario(name, cluster)
        assert [event.name for event in scenario.events] == [event.name for event in example.events]
        for entry in scenario.calendar:
            assert set(entry.domains) <= set(cluster.domain_names)


def test_domains_of_the_same_priority_take_the_parts() -> None:
    cluster = generate_topology(2, domains=12, apps=200)
    event = next(e for e in load_scenario("cascade", cluster).events if isinstance(e, Traffic))
    priority = {domain.name: domain.priority for domain in cluster.domains}
    assert {priority[name] for name in event.target.domains} == {"P0"}
    parts = cast_of(cluster).parts
    if sum(value == "P0" for value in priority.values()) > 1:
        assert not set(parts["payments"]) & set(parts["fraud"])


def test_tiers_keep_their_depth_and_zones_their_place() -> None:
    cluster = generate_topology(2, domains=12, apps=200)
    cast = cast_of(cluster)
    outermost = cast.target(Target(domains=("payments",), tiers=("edge",)))
    innermost = cast.target(Target(domains=("payments",), tiers=("ledger",)))
    parts = cast.parts["payments"]
    assert set(outermost.tiers) == {domain.tiers[0] for domain in parts}
    assert set(innermost.tiers) == {domain.tiers[-1] for domain in parts}
    two = with_physics(cluster, zones=("x", "y"))
    lost = [e for e in load_scenario("two-zone-loss", two).events if isinstance(e, ZoneLoss)]
    assert [event.zone for event in lost] == ["y", "x"]


def test_the_example_cluster_plays_scenarios_as_they_are() -> None:
    cluster = load_sim_cluster()
    own = msgspec.structs.replace(cluster, name="mine")
    assert load_scenario("cascade", own) == load_scenario("cascade", cluster)

"""A simulated cluster is its cluster file plus a physics file that fits it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from models.cluster import rows
from models.inputs.errors import InputError
from models.inputs.yamlfile import read
from models.sim.config.physics import EXAMPLE_PHYSICS, load_sim_cluster, with_apps, with_physics
from models.sim.config.scenario import load_scenario
from models.sim.world import World

SMALLEST = Path("infra/examples/cluster.yaml")
ITS_PHYSICS = Path("infra/examples/physics.yaml")
Step = str | int


def refusal(folder: Path, change: Callable[[Any], None], cluster: Path | None = None) -> str:
    """The error about the example physics after a change, without the file's folder."""
    value = read(EXAMPLE_PHYSICS)
    change(value)
    file = folder / "physics.yaml"
    file.write_text(yaml.safe_dump(value))
    with pytest.raises(InputError) as caught:
        load_sim_cluster(cluster, file)
    return str(caught.value).removeprefix(f"{folder}/")


def put(value: Any, *steps: Step) -> Callable[[Any], None]:
    def change(tree: Any) -> None:
        for step in steps[:-1]:
            tree = tree[step]
        tree[steps[-1]] = value

    return change


def test_the_example_cluster_has_1550_apps() -> None:
    assert load_sim_cluster().apps == 1550


@pytest.mark.parametrize("apps", [5, 155, 1551, 15_500])
def test_a_cluster_of_any_size_keeps_its_proportions(apps: int) -> None:
    base, scaled = load_sim_cluster(), with_apps(load_sim_cluster(), apps)
    assert scaled.apps == apps
    pods_per_app = base.physics.population.pods_at_peak / base.apps
    assert scaled.physics.population.pods_at_peak / apps == pytest.approx(pods_per_app, rel=0.01)


@pytest.mark.parametrize(
    ("steps", "value", "expected"),
    [
        (("zones",), [], "zones: expected a list of length >= 1, got an empty list"),
        (("zones",), "a", "zones: expected a list, got 'a'"),
        (("zones", 1), None, "zones[1]: expected text, got nothing"),
        (("scheduler",), [1], "scheduler: expected a mapping, got a list"),
        (
            ("scheduler", "preemption"),
            "yes",
            "scheduler.preemption: expected true or false, got 'yes'",
        ),
        (
            ("domains", "data", "limits", "cpu_ratio"),
            0.9,
            "domains.data.limits.cpu_ratio: expected a number >= 1, got 0.9",
        ),
        (
            ("domains", "data", "limits", "memory_ratio"),
            11,
            "domains.data.limits.memory_ratio: expected a number <= 10, got 11",
        ),
    ],
)
def test_the_error_names_the_path_of_a_wrong_value_and_what_is_expected(
    tmp_path: Path, steps: tuple[Step, ...], value: object, expected: str
) -> None:
    assert refusal(tmp_path, put(value, *steps)) == f"physics.yaml: {expected}"


@pytest.mark.parametrize(
    ("steps", "value", "expected"),
    [
        (("domains", "fraud", "timeout_ms"), 9, "domains.fraud.timeout_ms: expected more than"),
        (("domains", "fraud", "pod_share"), 0.9, "domains: expected pod_share to sum to 1"),
        (("guards", 0, "callee"), "data", "guards: expected one of internal -> data"),
        (("churn", "restart_s"), 600, "churn.restart_s: expected at most 15 ticks of 10 s"),
        (("metrics", "hpa_lag_s"), 90, "metrics.hpa_lag_s: expected at most 4 ticks of 10 s"),
    ],
)
def test_physics_that_contradict_the_cluster_are_refused(
    tmp_path: Path, steps: tuple[Step, ...], value: object, expected: str
) -> None:
    assert refusal(tmp_path, put(value, *steps)).startswith(f"physics.yaml: {expected}")


@pytest.mark.parametrize("section", ["domains", "pools"])
def test_every_domain_and_pool_needs_an_entry(tmp_path: Path, section: str) -> None:
    message = refusal(tmp_path, lambda tree: tree[section].pop("fraud"))
    assert message.startswith(f"physics.yaml: {section}: expected an entry for fraud")


def test_the_example_physics_do_not_fit_another_cluster_and_the_error_says_what_to_do() -> None:
    with pytest.raises(InputError, match=r"expected an entry for checkout.*pass --physics FILE"):
        load_sim_cluster(SMALLEST)


def test_an_operators_own_cluster_can_be_simulated() -> None:
    cluster = load_sim_cluster(SMALLEST, ITS_PHYSICS)
    world = World(cluster, load_scenario("calm", cluster), [0])
    world.observe()
    world.step(world.hold())
    assert world.tick == 1
    assert (world.state.status[0, rows.READY] > 0).all()


def test_insurance_expects_zones_no_smaller_than_the_simulated_ones() -> None:
    cluster = load_sim_cluster()
    first, *others = cluster.domains
    insured = replace(cluster, domains=(replace(first, survive="zone"), *others))
    assert with_physics(cluster, zones=("a", "b")).physics.zones == ("a", "b")
    with pytest.raises(ValueError, match=r"zones: expected at least 3, as in pools\.payments"):
        with_physics(insured, zones=("a", "b"))

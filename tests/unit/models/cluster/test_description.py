"""A cluster file loads completely or fails with one line that says what to fix."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from models.cluster.description import EXAMPLE_CLUSTER, Cluster, load_cluster
from models.inputs.errors import InputError
from models.inputs.yamlfile import decode, read

Step = str | int


def error_after(change: Callable[[Any], None]) -> str:
    """The error for the example cluster after a change."""
    value = read(EXAMPLE_CLUSTER)
    change(value)
    with pytest.raises(InputError) as caught:
        decode(value, Cluster, Path("my.yaml"))
    return str(caught.value)


def put(value: Any, *steps: Step) -> Callable[[Any], None]:
    def change(tree: Any) -> None:
        for step in steps[:-1]:
            tree = tree[step]
        tree[steps[-1]] = value

    return change


def load_text(folder: Path, text: str) -> Cluster:
    file = folder / "my.yaml"
    file.write_text(text)
    return load_cluster(file)


def test_the_example_cluster_has_the_five_domains_of_the_design() -> None:
    cluster = load_cluster()
    assert cluster.domain_names == ("payments", "fraud", "merchant", "data", "internal")
    assert [domain.priority for domain in cluster.domains] == ["P0", "P0", "P1", "P2", "P3"]


def test_a_loaded_cluster_survives_a_round_trip_through_yaml(tmp_path: Path) -> None:
    cluster = load_cluster()
    assert load_text(tmp_path, yaml.safe_dump(msgspec.to_builtins(cluster))) == cluster


@pytest.mark.parametrize(
    ("steps", "value", "expected"),
    [
        (
            ("domains", 2, "priority"),
            "P9",
            "domains[2].priority: expected one of P0, P1, P2, P3, got 'P9'",
        ),
        (
            ("domains", 2, "priority"),
            1,
            "domains[2].priority: expected one of P0, P1, P2, P3, got 1",
        ),
        (
            ("priority_weights", "P9"),
            1,
            "priority_weights: keys: expected one of P0, P1, P2, P3, got 'P9'",
        ),
        (("priority_weights", "P1"), -1, "priority_weights.P1: expected a number >= 0, got -1"),
        (("machines", 0, "cpu_cores"), -4, "machines[0].cpu_cores: expected a number > 0, got -4"),
        (
            ("machines", 0, "max_pods"),
            1.5,
            "machines[0].max_pods: expected a whole number, got 1.5",
        ),
        (("tick_seconds",), 99, "tick_seconds: expected a whole number <= 60, got 99"),
        (("tick_seconds",), True, "tick_seconds: expected a whole number, got true"),
        (("pools",), [], "pools: expected a list of length >= 1, got an empty list"),
        (("pools",), "a", "pools: expected a list, got 'a'"),
        (("domains", 0, "tiers", 1), None, "domains[0].tiers[1]: expected text, got nothing"),
        (("prices",), [1], "prices: expected a mapping, got a list"),
        (
            ("domains", 0, "prioritty"),
            1,
            "domains[0]: unknown field prioritty, did you mean priority?",
        ),
        (("prices", "x"), 1, "prices: unknown field x, expected one of on_demand, reserved, spot"),
    ],
)
def test_an_error_names_the_path_the_expectation_and_the_value(
    steps: tuple[Step, ...], value: object, expected: str
) -> None:
    assert error_after(put(value, *steps)) == f"my.yaml: {expected}"


def test_a_missing_field_is_named() -> None:
    message = error_after(lambda tree: tree["domains"][1].pop("priority"))
    assert message == "my.yaml: domains[1]: expected the field priority, which is missing"


@pytest.mark.parametrize(
    ("steps", "value", "expected"),
    [
        (("pools", 0, "markets", "spot"), 0.5, "pools[0].markets: expected on_demand + reserved"),
        (("machines", 0, "reserved_cpu_cores"), 64, "machines[0]: expected reserved_cpu_cores"),
        (("domains", 0, "pools", 0), "nope", "domains.payments.pools: expected one of data, fraud"),
        (("calls", 0, "callee"), "nope", "calls.callee: expected one of data, fraud"),
        (("pools", 0, "machine"), "nope", "pools.payments.machine: expected one of c16, m16"),
        (("domains", 0, "name"), "fraud", "domains: expected distinct names, found fraud twice"),
        (("tick_seconds",), 7, "tick_seconds: expected a divisor of 60, got 7"),
        (("domains", 0, "floor_share"), 0.9, "domains: expected floor_share to sum to at most 1"),
        (("domains", 0, "survive"), "region", "domains[0].survive: expected one of none, zone"),
    ],
)
def test_contradicting_fields_are_refused(
    steps: tuple[Step, ...], value: object, expected: str
) -> None:
    assert error_after(put(value, *steps)).startswith(f"my.yaml: {expected}")


def test_a_domain_survives_a_zone_only_where_all_of_its_pools_have_several() -> None:
    def change(tree: Any) -> None:
        tree["domains"][0]["survive"] = "zone"
        del tree["pools"][0]["zones"]

    assert error_after(change) == (
        "my.yaml: domains.payments.survive: expected pools.payments in at least 2 zones, got 1; "
        "nothing survives the loss of the only one"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "expected a mapping, got nothing"),
        ("- a\n", "expected a mapping, got a list"),
        ("name: [a\n", "line 2, column 1: not valid YAML: expected ',' or ']'"),
        ("name: a\nname: b\n", "line 2, column 1: not valid YAML: duplicate key name"),
        ("x: .inf\n", "line 1, column 4: not valid YAML: expected a finite number, got .inf"),
        ("x: 2026-13-45\n", "not valid YAML: month must be in 1..12"),
        ("x: !!python/name:os.system\n", "line 1, column 4: not valid YAML: could not determine"),
        ("x: \0\n", "not valid YAML: unacceptable character"),
        ("[" * 5000, "not valid YAML: maximum recursion depth"),
    ],
)
def test_an_invalid_file_gets_a_one_line_error(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        load_text(tmp_path, text)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'my.yaml'}: {expected}")
    assert "\n" not in message


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone.yaml: cannot be read \(No such file"):
        load_cluster(tmp_path / "gone.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"name: \xff")
    with pytest.raises(InputError, match=r"latin.yaml: expected UTF-8 text"):
        load_cluster(tmp_path / "latin.yaml")


def test_the_smallest_cluster_file_that_ships_is_valid_and_short() -> None:
    file = Path("infra/examples/cluster.yaml")
    cluster = load_cluster(file)
    assert (len(cluster.domains), len(cluster.pools)) == (2, 1)
    assert len(file.read_text().splitlines()) <= 25

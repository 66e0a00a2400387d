"""Features: finite for any input, independent of the batch, consistent with their apps."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.cluster import rows
from models.cluster.observation import Observation
from models.features.encode import Encoder
from models.features.memory import copy_memory
from models.features.normalise import normalise
from models.features.table import APP, CALLS, CLUSTER, DOMAIN, GROUP, LEVELS, POOL, markdown
from tests.unit.models.features.features_helpers import (
    APPS,
    CLUSTER_FILE,
    DOMAINS,
    GROUPS,
    INVENTORY,
    POOLS,
    app,
    compile_kernels,
    encoded,
    garbage,
    observation,
    read_only,
    with_status,
)

SEEDS = st.integers(0, 2**31)

few = settings(max_examples=40, deadline=None)


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    compile_kernels()


@few
@given(SEEDS)
def test_features_are_finite_and_bounded_for_any_input(seed: int) -> None:
    rng = np.random.default_rng(seed)
    features, _ = encoded(*(garbage(rng, 2, tick) for tick in range(4)))
    for values, bounded in zip(features, normalise(features), strict=True):
        assert np.isfinite(values).all()
        assert (np.abs(bounded) <= 5).all()


@few
@given(SEEDS)
def test_the_order_of_apps_inside_a_domain_does_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ticks = [observation(rng, 1, tick) for tick in (1, 2)]
    order = np.concatenate(
        [rng.permutation(np.flatnonzero(INVENTORY.domain == d)) for d in range(DOMAINS)]
    )
    shuffled = [
        observed._replace(
            measured=np.ascontiguousarray(observed.measured[..., order]),
            status=read_only(np.ascontiguousarray(observed.status[..., order])),
        )
        for observed in ticks
    ]
    columns = ("domain", "tier", "min_replicas", "max_replicas", "latency_target",
               "request_mix")  # fmt: skip
    moved = INVENTORY._replace(
        **{name: getattr(INVENTORY, name)[order] for name in columns},
        saturation=INVENTORY.saturation[:, order],
    )
    ours, theirs = encoded(*ticks)[0], encoded(*shuffled, inventory=moved)[0]
    np.testing.assert_array_equal(ours.app[:, order], theirs.app)
    np.testing.assert_allclose(ours.domain, theirs.domain, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(ours.group, theirs.group, rtol=1e-5, atol=1e-5)


@few
@given(SEEDS)
def test_an_environment_in_a_batch_equals_the_same_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ticks = [garbage(rng, 64, tick) for tick in range(3)]
    alone = [Observation._make(part[7:8].copy() for part in observed) for observed in ticks]
    for observed in alone:
        observed.status.flags.writeable = False
    together, single = encoded(*ticks)[0], encoded(*alone)[0]
    for many, one in zip(together, single, strict=True):
        np.testing.assert_array_equal(many[7], one[0])


@few
@given(SEEDS)
def test_features_depend_on_observation_and_memory_only_and_change_no_input(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, later = observation(rng, 2, 1), observation(rng, 2, 3)
    encoder = Encoder(INVENTORY)
    _, memory = encoder.encode(first, encoder.start(first))
    kept = copy_memory(memory)
    inputs = [part.copy() for part in later]
    ours = [values.copy() for values in encoder.encode(later, memory)[0]]
    encoder.encode(garbage(rng, 2, 9), encoder.start(first))
    theirs, _ = Encoder(INVENTORY).encode(later, kept)
    for left, right in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(left, right)
    for before, after in zip(inputs, later, strict=True):
        np.testing.assert_array_equal(before, after)


@few
@given(SEEDS)
def test_quantiles_equal_those_of_the_apps(seed: int) -> None:
    features, _ = encoded(observation(np.random.default_rng(seed), 1))
    for domain in range(DOMAINS):
        inside = INVENTORY.domain == domain
        use, slack = (app(features, name)[0, inside] for name in ("utilisation", "headroom"))
        row = dict(zip(DOMAIN.names, features.domain[0, domain], strict=False))
        for name, share in (("p10", 0.1), ("p50", 0.5), ("p75", 0.75), ("p90", 0.9), ("max", 1)):
            assert row[f"utilisation_{name}"] == pytest.approx(np.quantile(use, share), abs=3e-5)
        for name, share in (("min", 0), ("p10", 0.1), ("p25", 0.25), ("p50", 0.5), ("p90", 0.9)):
            assert row[f"headroom_{name}"] == pytest.approx(np.quantile(slack, share), abs=3e-5)
        assert row["utilisation_variance"] == pytest.approx(use.var(), abs=1e-5)
        assert row["headroom_variance"] == pytest.approx(min(slack.var(), 5), abs=1e-4)


def test_held_shares_are_the_requests_of_bound_and_pending_pods() -> None:
    observed = observation(np.random.default_rng(3), 1)
    features, _ = encoded(observed)
    status = observed.status[0].astype(np.float64)
    held = (
        (status[rows.READY] + status[rows.STARTING] + status[rows.PENDING])
        * status[rows.CPU_REQUEST]
        / 1000
    )
    capacity = float((observed.pool["ready"][0] * INVENTORY.pool_cpu).sum())
    shares = np.bincount(INVENTORY.domain, held, DOMAINS) / capacity
    np.testing.assert_allclose(features.domain[0, :, DOMAIN.at("held_cpu")], shares, rtol=1e-5)


def test_an_app_that_moved_counts_in_its_new_domain() -> None:
    observed = observation(np.random.default_rng(3), 1)
    domain = INVENTORY.domain.copy()
    domain[0] = DOMAINS - 1
    features, _ = encoded(with_status(observed, {rows.DOMAIN: domain}))
    apps = features.domain[0, :, DOMAIN.at("apps")]
    np.testing.assert_array_equal(apps, np.bincount(domain, minlength=DOMAINS))
    assert features.group[0, :, GROUP.at("apps")].sum() == APPS


def test_latency_exposure_is_the_part_of_the_target_that_callees_use() -> None:
    observed = observation(np.random.default_rng(3), 1)
    features, _ = encoded(observed)
    names = CLUSTER_FILE.domain_names
    payments, fraud = names.index("payments"), names.index("fraud")
    rps, p99 = observed.measured[0, rows.RPS].astype(np.float64), observed.measured[0, rows.P99]
    called, caller = INVENTORY.domain == fraud, INVENTORY.domain == payments
    latency = np.average(p99[called], weights=rps[called])
    target = np.average(INVENTORY.latency_target[caller], weights=rps[caller])
    expected = INVENTORY.calls[payments, fraud] * latency / target
    exposure = features.domain[0, payments, DOMAIN.at("latency_exposure")]
    assert exposure == pytest.approx(expected, rel=1e-5)
    assert features.domain[0, payments, DOMAIN.width + fraud] == pytest.approx(0.35)


def test_spend_left_follows_what_the_nodes_cost() -> None:
    ticks = [observation(np.random.default_rng(3), 1, tick) for tick in (0, 6, 12)]
    features, memory = encoded(*ticks)
    nodes = ticks[0].pool["ready"][0] + ticks[0].pool["coming"][0]
    rate = float((nodes * INVENTORY.pool_price).sum())
    assert memory.spent[0] == pytest.approx(rate * 12 * INVENTORY.tick_s / 3600)
    left = features.cluster[0, CLUSTER.at("spend_left")]
    assert left == pytest.approx(1 - rate / INVENTORY.spend_cap_per_hour, rel=1e-5)


def test_feature_arrays_have_the_widths_of_the_table() -> None:
    features, _ = encoded(observation(np.random.default_rng(0), 3))
    assert features.app.shape == (3, APPS, APP.width)
    assert features.group.shape == (3, GROUPS, GROUP.width)
    assert features.domain.shape == (3, DOMAINS, DOMAIN.width + DOMAINS)
    assert features.pool.shape == (3, POOLS, POOL.width)
    assert features.cluster.shape == (3, CLUSTER.width)
    assert all(values.dtype == np.float32 for values in features)


def test_the_table_is_consistent() -> None:
    for level in LEVELS:
        assert len(set(level.names)) == level.width
        assert all(-5 <= f.low < f.high <= 5 and f.scale > 0 for f in level.features)
    assert CALLS.name not in DOMAIN.names
    assert GROUP.features == DOMAIN.features[: GROUP.width]


def test_the_documentation_is_up_to_date() -> None:
    file = Path(__file__).parents[4] / "docs" / "reference" / "features.md"
    assert file.read_text(encoding="utf-8") == markdown()


def test_the_request_mix_is_a_feature_while_the_app_is_declared() -> None:
    observed = observation(np.random.default_rng(0), 1)
    features, _ = encoded(with_status(observed, {rows.ACTIVE: np.arange(APPS) % 2}))
    mix, odd = INVENTORY.request_mix, np.arange(APPS) % 2 == 1
    np.testing.assert_allclose(app(features, "interactive")[0, odd], mix[odd, :2].sum(axis=1))
    np.testing.assert_array_equal(app(features, "batch")[0, odd], mix[odd, 2])
    assert (app(features, "interactive")[0, ~odd] == 0).all()
    assert (app(features, "batch")[0, ~odd] == 0).all()

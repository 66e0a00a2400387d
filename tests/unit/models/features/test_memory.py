"""What features remember: missing is never zero, pods in flight and restarts have an age."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.cluster import rows
from models.features.encode import Encoder
from models.features.memory import age_edges
from models.features.table import AGES, DOMAIN
from tests.unit.models.features.features_helpers import (
    APPS,
    INVENTORY,
    app,
    compile_kernels,
    encoded,
    observation,
    with_status,
)

SEEDS = st.integers(0, 2**31)
WINDOW_TICKS = 30

few = settings(max_examples=40, deadline=None)


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    compile_kernels()


@few
@given(
    SEEDS, st.sampled_from([np.nan, np.inf, -np.inf, -1.0, 3e38]), st.integers(0, rows.SAMPLES - 1)
)
def test_a_broken_sample_is_replaced_by_the_last_valid_one_with_its_age(
    seed: int, value: float, kind: int
) -> None:
    first = observation(np.random.default_rng(seed), 1, tick=1)
    later = observation(np.random.default_rng(seed + 1), 1, tick=4)
    later.measured[:, kind, 5] = value
    before = [app(encoded(first)[0], name)[0, 5] for name in ("rps", "utilisation", "headroom")]
    features, _ = encoded(first, later)
    after = [app(features, name)[0, 5] for name in ("rps", "utilisation", "headroom")]
    assert after == before
    assert app(features, "missing")[0, 5] == 1
    assert app(features, "sample_age")[0, 5] == 3 * INVENTORY.tick_s
    assert app(features, "missing").sum() == 1


@few
@given(SEEDS)
def test_values_marked_as_missing_are_never_read(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, later = observation(rng, 2, 1), observation(rng, 2, 2)
    later.missing[:] = rng.random(later.missing.shape) < 0.5
    other = later._replace(measured=later.measured.copy())
    hidden = np.broadcast_to(later.missing[:, None] == 1, other.measured.shape)
    other.measured[hidden] = np.nan
    for ours, theirs in zip(encoded(first, later)[0], encoded(first, other)[0], strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_all_zeros_from_an_exporter_count_as_missing_not_as_idle() -> None:
    first, later = (observation(np.random.default_rng(1), 1, tick) for tick in (1, 2))
    # Two kinds of broken exporter: the first still counts pods, the second does not.
    later.measured[:, : rows.PODS] = 0.0
    features, _ = encoded(first, later)
    assert (app(features, "missing") == 1).all()
    np.testing.assert_array_equal(app(features, "rps"), app(encoded(first)[0], "rps"))
    later.measured[:] = 0.0
    assert (app(encoded(first, later)[0], "missing") == 1).all()


def test_zero_traffic_is_valid_while_memory_is_in_use() -> None:
    first, later = (observation(np.random.default_rng(1), 1, tick) for tick in (1, 2))
    later.measured[:, : rows.MEMORY] = 0.0
    features, _ = encoded(first, later)
    assert (app(features, "missing") == 0).all()
    assert (app(features, "rps") == 0).all()


def test_an_exporter_that_falls_silent_while_its_app_works_is_missing_but_cpu_is_not() -> None:
    first, later = (observation(np.random.default_rng(1), 1, tick) for tick in (1, 2))
    later.measured[:, : rows.CPU] = 0.0
    later.measured[:, rows.CPU] = 2 * first.measured[:, rows.CPU]
    features, _ = encoded(first, later)
    before = encoded(first)[0]
    busy = app(before, "rps") > 1
    assert (app(features, "missing")[busy] == 1).all()
    np.testing.assert_array_equal(app(features, "rps")[busy], app(before, "rps")[busy])
    later.measured[:, rows.CPU] = 0.01 * first.measured[:, rows.CPU]
    idle, _ = encoded(first, later)
    assert (app(idle, "missing") == 0).all()
    assert (app(features, "utilisation")[busy] > app(idle, "utilisation")[busy]).all()


def test_an_app_without_any_sample_reads_as_full_not_as_idle() -> None:
    observed = observation(np.random.default_rng(1), 1)
    observed.missing[:] = 1
    features, _ = encoded(observed)
    assert (app(features, "utilisation") == 1).all()
    assert (app(features, "headroom")[0] == 0).all()
    assert (features.domain[..., DOMAIN.at("utilisation_p50")] == 1).all()
    assert (features.domain[..., DOMAIN.at("headroom_min")] == 0).all()
    assert (features.domain[..., DOMAIN.at("missing")] == 1).all()


@few
@given(SEEDS)
def test_observing_a_tick_again_changes_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ticks = [observation(rng, 2, tick) for tick in (1, 2, 5)]
    once, first = encoded(*ticks)
    twice, second = encoded(*ticks, ticks[-1])
    for left, right in zip((*once, *first), (*twice, *second), strict=True):
        np.testing.assert_array_equal(left, right)


@few
@given(SEEDS)
def test_pods_in_flight_by_age_add_up_to_starting_and_pending(seed: int) -> None:
    rng = np.random.default_rng(seed)
    encoder = Encoder(INVENTORY)
    memory = encoder.start(observation(rng, 2, 0))
    tick = 0
    for _ in range(50):
        tick += int(rng.choice([0, 1, 1, 1, 2, 7, 100]))
        observed = observation(rng, 2, tick)
        _, memory = encoder.encode_apps(observed, memory)
        assert (memory.flight >= 0).all()
        assert (memory.cohort >= 0).all()
        in_flight = observed.status[:, rows.STARTING] + observed.status[:, rows.PENDING]
        np.testing.assert_array_equal(memory.flight.sum(axis=1), in_flight)


@pytest.mark.parametrize(("tick", "bucket"), [(2, 0), (3, 1), (6, 2), (12, 3), (30, 4), (99, 4)])
def test_a_pod_in_flight_is_in_the_bucket_of_its_age(tick: int, bucket: int) -> None:
    rng = np.random.default_rng(0)
    ticks = [
        with_status(observation(rng, 1, at), {rows.STARTING: 3, rows.PENDING: 0})
        for at in (0, 1, tick)
    ]
    _, memory = encoded(*ticks)
    assert (memory.flight[0, bucket] == 3).all()


def test_the_oldest_pods_in_flight_become_ready_first() -> None:
    rng = np.random.default_rng(0)
    counts = [(0, 2), (4, 5), (5, 1)]
    ticks = [
        with_status(observation(rng, 1, t), {rows.STARTING: n, rows.PENDING: 0}) for t, n in counts
    ]
    _, memory = encoded(*ticks)
    assert memory.flight[0, :, 0].tolist() == [1, 0, 0, 0, 0]


@pytest.mark.parametrize("tick_s", [1, 7, 10, 60])
def test_age_buckets_work_for_any_tick_length(tick_s: int) -> None:
    edges = age_edges(tick_s)
    assert edges.size == len(AGES) - 1
    assert (np.diff(edges) >= 0).all()
    rng = np.random.default_rng(tick_s)
    inventory = INVENTORY._replace(tick_s=tick_s)
    ticks = [observation(rng, 1, tick) for tick in range(0, 40, 3)]
    _, memory = encoded(*ticks, inventory=inventory)
    assert (memory.flight >= 0).all()


def test_restarts_count_for_five_minutes() -> None:
    rng = np.random.default_rng(0)
    counts = ((0, 0), (1, 4), (WINDOW_TICKS, 4), (WINDOW_TICKS + 1, 4), (WINDOW_TICKS + 2, 4))
    encoder = Encoder(INVENTORY)
    ticks = [
        with_status(observation(rng, 1, tick), {rows.RESTARTS: n, rows.READY: 2})
        for tick, n in counts
    ]
    memory = encoder.start(ticks[0])
    found = [
        float(app(encoder.encode(observed, memory)[0], "restarts")[0, 0]) for observed in ticks
    ]
    assert found == [0, 2, 2, 0, 0]


def test_an_undeclared_app_reads_as_zero_and_is_forgotten() -> None:
    ticks = [observation(np.random.default_rng(3), 1, tick) for tick in (1, 2, 3)]
    active = np.ones(APPS, np.int32)
    active[4] = 0
    ticks[1] = with_status(ticks[1], {rows.ACTIVE: active})
    assert (encoded(*ticks[:2])[0].app[0, 4] == 0).all()
    ticks[2].missing[0, 4] = 1
    assert app(encoded(*ticks)[0], "utilisation")[0, 4] == 1

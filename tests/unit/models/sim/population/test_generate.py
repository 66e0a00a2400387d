from functools import cache

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.cluster.arrays import F64
from models.cluster.description import PRIORITIES
from models.sim.apps import CPU_BOUND, IO_BOUND, MEMORY_BOUND, Apps, Population
from models.sim.config.physics import SimCluster, load_sim_cluster, with_apps, with_physics
from models.sim.population.fitted import generator, pick
from models.sim.population.generate import generate


@cache
def example() -> SimCluster:
    return load_sim_cluster()


@cache
def population(apps: int = 1550, seed: int = 78) -> Population:
    return generate(_cluster(apps, seed))


def _cluster(apps: int, seed: int = 78) -> SimCluster:
    cluster = with_apps(example(), apps)
    renewed = msgspec.structs.replace(cluster.physics.population, seed=seed)
    return with_physics(cluster, population=renewed)


def _seconds(apps: Apps) -> F64:
    return np.asarray(apps.cpu_seconds + apps.io_seconds, dtype=np.float64)


def _workers(apps: Apps) -> F64:
    workers = apps.workers_per_core * apps.cpu_request
    return np.asarray(workers, dtype=np.float64)


def _peak(apps: Apps) -> F64:
    # `max_replicas` is four times the peak.
    return np.asarray(apps.max_replicas / 4, dtype=np.float64)


def _demand(generated: Population, step: int = 10) -> F64:
    """[apps, steps] requests per second over a weekday, calls included."""
    apps, calls = generated
    minute = np.arange(0, 1440, step)[None, :] + apps.day_shift[:, None]
    profile = apps.day_profiles[apps.day_profile[:, None], minute % 1440]
    demand = np.asarray(apps.own_rps[:, None] * profile, dtype=np.float64)
    for caller, callee, per_request in zip(
        calls.caller, calls.callee, calls.per_request, strict=True
    ):
        demand[callee] += demand[caller] * per_request
    return demand


def _rps_per_pod(apps: Apps) -> F64:
    over_mean = apps.day_profiles[apps.day_profile].max(axis=1)
    return np.asarray(apps.mean_rps * over_mean / _peak(apps), dtype=np.float64)


def _pods(generated: Population) -> F64:
    """[apps, steps] pods an autoscaler at the wanted utilisation would run."""
    needed = _demand(generated) / _rps_per_pod(generated.apps)[:, None]
    return np.maximum(needed, generated.apps.min_replicas[:, None])


def _of_priority(cluster: SimCluster, apps: Apps) -> F64:
    priority = [PRIORITIES.index(domain.priority) for domain in cluster.domains]
    return np.array(priority)[apps.domain]


def _assert_same(one: Population, other: Population) -> None:
    for left, right in zip((*one.apps, *one.calls), (*other.apps, *other.calls), strict=True):
        np.testing.assert_array_equal(left, right)


def test_the_same_seed_gives_the_same_apps() -> None:
    _assert_same(generate(_cluster(155)), generate(_cluster(155)))


def test_another_seed_gives_other_apps() -> None:
    assert not np.array_equal(population(155, 1).apps.mean_rps, population(155, 2).apps.mean_rps)


def test_streams_of_different_purposes_are_independent() -> None:
    assert generator(1, "a").random() == generator(1, "a").random()
    assert generator(1, "a").random() != generator(1, "b").random()


def test_the_cluster_has_the_wanted_pods_at_its_daily_peak() -> None:
    total = _pods(population()).sum(axis=0)
    assert total.max() == pytest.approx(example().physics.population.pods_at_peak, rel=0.03)


def test_domains_share_the_peak_as_declared() -> None:
    pods = _pods(population())
    at = pods[:, pods.sum(axis=0).argmax()]
    shares = np.bincount(population().apps.domain, at) / at.sum()
    wanted = [domain.pod_share for domain in example().domain_physics]
    np.testing.assert_allclose(shares, wanted, atol=0.015)


def test_app_sizes_are_heavy_tailed_within_bounds() -> None:
    peak = _peak(population().apps)
    assert np.mean((peak >= 5) & (peak <= 60)) > 0.6
    assert peak.max() <= 0.015 * example().physics.population.pods_at_peak + 1
    assert np.quantile(peak, 0.95) > 5 * np.median(peak)


def test_pods_are_of_a_size_that_needs_about_1300_nodes() -> None:
    apps = population().apps
    at = _pods(population()).max(axis=1)
    cores = float((at * apps.cpu_request).sum())
    assert 0.5 <= cores / at.sum() <= 0.9
    # Machines have 62.5 allocatable cores and are packed to 93 %.
    assert 1000 <= (_pods(population()).sum(axis=0).max() * cores / at.sum()) / 62.5 / 0.93 <= 1600
    assert 2.0 <= float((at * apps.memory_request).sum()) / cores <= 3.2


def test_a_pod_takes_at_most_an_eighth_of_a_node() -> None:
    apps = population().apps
    assert apps.cpu_request.max() <= 62.5 / 8
    assert apps.memory_request.max() <= 186 / 8 + 1 / 32


def test_cpu_use_at_the_wanted_occupation_meets_the_cluster_figure() -> None:
    apps = population().apps
    used = (_demand(population()) * apps.cpu_seconds[:, None]).sum(axis=0)
    requested = (_pods(population()) * apps.cpu_request[:, None]).sum(axis=0)
    packed = 1 - np.mean([pool.headroom for pool in example().pool_physics])
    assert np.mean(used / requested) * packed == pytest.approx(0.675, abs=0.02)


def test_cpu_memory_and_io_bound_apps_have_their_shares() -> None:
    bound = population().apps.bound
    assert np.mean(bound == CPU_BOUND) == pytest.approx(0.65, abs=0.01)
    assert np.mean(bound == MEMORY_BOUND) == pytest.approx(0.15, abs=0.01)
    assert np.mean(bound == IO_BOUND) == pytest.approx(0.20, abs=0.01)


def test_only_io_bound_apps_saturate_before_their_cpu_request() -> None:
    apps = population().apps
    full = _workers(apps) * apps.cpu_seconds / _seconds(apps) / apps.cpu_request
    io = apps.bound == IO_BOUND
    np.testing.assert_allclose(full[~io], 1.0, rtol=1e-5)
    assert full[io].min() >= 0.449
    assert full[io].max() <= 0.701


def test_memory_bound_apps_are_tight_and_few_of_them_leak() -> None:
    apps = population().apps
    full = apps.memory_base + apps.memory_per_request * _workers(apps)
    tight = apps.bound == MEMORY_BOUND
    share = full / apps.memory_request
    assert share[tight].min() >= 0.749
    assert share[tight].max() <= 0.921
    assert share[~tight].max() < 0.75
    leaking = apps.memory_leak > 0
    assert not leaking[~tight].any()
    assert leaking.sum() == round(0.1 * tight.sum())
    hours = (apps.memory_request - full)[leaking] / apps.memory_leak[leaking]
    assert hours.min() >= 11.9
    assert hours.max() <= 201


def test_latency_targets_leave_room_for_service_and_waiting() -> None:
    apps = population().apps
    promised = apps.best_effort == 0
    # The 99th percentile of service alone is 4.6 mean service times; the rest is for waiting.
    assert (apps.latency_target / _seconds(apps))[promised].min() >= 9
    assert (apps.timeout > apps.latency_target)[promised].all()
    assert np.isinf(apps.latency_target[~promised]).all()
    assert np.isfinite(apps.timeout).all()


def test_outer_tiers_have_looser_targets_than_inner_ones() -> None:
    apps = population().apps
    payments = apps.domain == 0
    outer = apps.latency_target[payments & (apps.tier == 0)].mean()
    assert outer > 1.3 * apps.latency_target[payments & (apps.tier == 3)].mean()
    assert (apps.latency_target[payments] >= 0.6 * 0.25 - 1e-6).all()
    assert (apps.latency_target[payments] <= 1.6 * 0.25 + 1e-6).all()


def test_wrong_classes_have_their_share_and_are_mostly_too_high() -> None:
    apps = population().apps
    priority = _of_priority(example(), apps)
    wrong = apps.pod_class != priority
    assert wrong.mean() == pytest.approx(example().physics.population.wrong_class_share, abs=0.001)
    assert np.mean(apps.pod_class[wrong] < priority[wrong]) > 0.6
    assert (apps.pod_class[priority == 0] == 2).any()


def test_request_mixes_follow_the_domain() -> None:
    apps = population().apps
    np.testing.assert_allclose(apps.request_mix.sum(axis=1), 1, rtol=1e-5)
    payments, data = apps.request_mix[apps.domain == 0], apps.request_mix[apps.domain == 3]
    assert payments[:, :2].sum(axis=1).mean() > 0.7
    assert data[:, 2:4].sum(axis=1).mean() > 0.6


def test_payments_are_never_retried() -> None:
    apps = population().apps
    assert (apps.retry_share[apps.domain == 0] == 0).all()
    assert (apps.retry_share[apps.domain == 1] > 0).all()


def test_a_cluster_with_one_domain_and_one_tier_has_apps_but_no_calls() -> None:
    only = msgspec.structs.replace(example().domains[2], name="shop", tiers=("web",))
    apps = msgspec.structs.replace(example().domain_physics[2], apps=12, pod_share=1.0)
    small = msgspec.structs.replace(example().physics.population, pods_at_peak=300)
    physics = msgspec.structs.replace(
        example().physics, domains={"shop": apps}, guards=(), population=small
    )
    generated = generate(
        msgspec.structs.replace(example(), domains=(only,), calls=(), physics=physics)
    )
    assert len(generated.apps.domain) == 12
    assert len(generated.calls.caller) == 0
    np.testing.assert_array_equal(generated.apps.own_rps, generated.apps.mean_rps)


@given(st.integers(0, 2**32), st.integers(0, 20))
def test_a_pick_has_exactly_the_wanted_size(seed: int, count: int) -> None:
    assert pick(generator(seed, "pick"), np.arange(20.0), count).sum() == count


@settings(max_examples=12, deadline=None)
@given(apps=st.sampled_from([15, 16, 40, 155, 400]), seed=st.integers(0, 10_000))
def test_any_size_and_seed_gives_a_sound_population(apps: int, seed: int) -> None:
    cluster = _cluster(apps, seed)
    _assert_sound_apps(cluster, generate(cluster).apps)


def test_ten_times_the_apps_are_ten_times_the_cluster() -> None:
    total = float(population(15_500).apps.start_replicas.sum())
    assert total == pytest.approx(10 * population().apps.start_replicas.sum(), rel=0.03)


def _assert_sound_apps(cluster: SimCluster, apps: Apps) -> None:
    assert len(apps.domain) == cluster.apps
    assert (np.diff(apps.domain) >= 0).all()
    for name, values in apps._asdict().items():
        assert (values >= 0).all(), f"{name} is negative or not a number somewhere"
    assert (apps.min_replicas <= apps.start_replicas).all()
    assert (apps.start_replicas <= apps.max_replicas).all()
    assert (_peak(apps) >= 2).all()
    important = _of_priority(cluster, apps) <= 1
    assert (apps.min_replicas[important] >= 2).all()
    assert (apps.min_replicas >= 1).all()
    assert (apps.cpu_limit_ratio >= 1).all()
    occupation = _rps_per_pod(apps) * _seconds(apps) / _workers(apps)
    assert occupation.max() < 0.8

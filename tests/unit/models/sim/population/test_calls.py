from functools import cache

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.cluster.description import Call
from models.inputs.errors import InputError
from models.sim.apps import Calls, Population
from models.sim.call_graph import call_rows
from models.sim.config.physics import SimCluster, load_sim_cluster, with_apps, with_physics
from models.sim.population.generate import generate, reachable


@cache
def example() -> SimCluster:
    return load_sim_cluster()


@cache
def population() -> Population:
    return generate(example())


@settings(max_examples=12, deadline=None)
@given(apps=st.sampled_from([15, 16, 40, 155, 400]), seed=st.integers(0, 10_000))
def test_at_any_size_and_seed_calls_lead_inwards_and_carry_at_most_60_percent(
    apps: int, seed: int
) -> None:
    cluster = with_apps(example(), apps)
    renewed = msgspec.structs.replace(cluster.physics.population, seed=seed)
    _assert_sound_calls(generate(with_physics(cluster, population=renewed)))


def test_calls_between_domains_are_near_the_configured_rate() -> None:
    apps, calls = population()
    carried = apps.mean_rps[calls.caller] * calls.per_request
    inside = np.bincount(calls.callee, carried * (calls.cross_domain == 0), len(apps.domain))
    names = example().domain_names
    for call in example().calls:
        caller, callee = names.index(call.caller), names.index(call.callee)
        edges = (apps.domain[calls.caller] == caller) & (apps.domain[calls.callee] == callee)
        entering = (apps.mean_rps - inside)[apps.domain == caller].sum()
        assert carried[edges].sum() / entering == pytest.approx(call.calls_per_request, rel=0.15)


def test_edges_per_app_are_as_in_real_call_graphs() -> None:
    apps, calls = population()
    assert 1.5 <= len(calls.caller) / len(apps.domain) <= 2.5


def test_payments_reaches_some_of_fraud_and_leaves_bystanders_everywhere() -> None:
    apps, calls = population()
    reached = reachable(calls, len(apps.domain), apps.domain == 0)
    away = [float(np.mean(~reached[apps.domain == domain])) for domain in range(5)]
    assert away[0] == 0
    assert away[1] >= 0.4
    assert min(away[1:]) >= 0.3
    # Payments calls fraud, so some of it is reached.
    assert away[1] < 1


def test_a_cycle_of_calls_is_refused_with_its_domains() -> None:
    back = Call(caller="fraud", callee="payments", calls_per_request=0.1)
    cluster = msgspec.structs.replace(example(), calls=(*example().calls, back))
    with pytest.raises(InputError, match=r"cycle between domains, got .*fraud"):
        generate(cluster)


def test_reachability_follows_calls_forward_only() -> None:
    calls = Calls(
        caller=np.array([0, 1, 3], np.int32),
        callee=np.array([1, 2, 2], np.int32),
        per_request=np.ones(3, np.float32),
        guard=np.zeros(3, np.int8),
        cross_domain=np.zeros(3, np.int8),
    )
    from_second = reachable(calls, 5, np.array([False, True, False, False, False]))
    assert from_second.tolist() == [False, True, True, False, False]


def _assert_sound_calls(generated: Population) -> None:
    apps, calls = generated
    by_calls = np.bincount(
        calls.callee, apps.mean_rps[calls.caller] * calls.per_request, len(apps.domain)
    )
    np.testing.assert_allclose(apps.own_rps + by_calls, apps.mean_rps, rtol=1e-4)
    # 60 %, with a margin for float32.
    assert (by_calls <= 0.601 * apps.mean_rps).all()
    crosses = apps.domain[calls.caller] != apps.domain[calls.callee]
    np.testing.assert_array_equal(calls.cross_domain, crosses)
    seen_as_caller: set[int] = set()
    for caller, callee in zip(calls.caller.tolist(), calls.callee.tolist(), strict=True):
        seen_as_caller.add(caller)
        assert callee not in seen_as_caller


def test_call_order_completes_each_sum_before_it_is_read() -> None:
    """Forward, all calls to an app come before its own; backward, all its own before those."""
    rows = call_rows(population().calls)
    last_to = {int(app): edge for edge, app in enumerate(rows.callee)}
    assert all(last_to.get(int(app), -1) < edge for edge, app in enumerate(rows.caller))
    caller = np.repeat(rows.callers, np.diff(rows.by_caller_start))
    last_of = {int(app): edge for edge, app in enumerate(caller)}
    assert all(last_of.get(int(app), -1) < edge for edge, app in enumerate(rows.by_caller_callee))

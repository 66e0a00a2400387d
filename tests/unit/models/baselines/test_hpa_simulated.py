"""The HPAs of a world: all apps at once decide like each app alone."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.baselines.hpa.replica_calculator import Totals, by_utilisation
from models.baselines.hpa.settings import Behaviour, Policy, ScalingRules
from models.baselines.hpa.simulated import Hpa, HpaState, sync_schedule
from models.cluster import rows
from models.cluster.inventory import Inventory
from models.cluster.observation import POOL_STATUS, Observation
from models.cluster.plan import Plan, Reason
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.declarations import declare
from models.sim.population.generate import generate
from models.sim.state import NONE

APPS = 20
DUE = sync_schedule(APPS, 10) != NONE
few = settings(max_examples=40, deadline=None)
ROWS = {
    "active": rows.ACTIVE, "replicas": rows.REPLICAS, "request": rows.CPU_REQUEST,
    "ready": rows.READY, "starting": rows.STARTING, "pending": rows.PENDING,
}  # fmt: skip
NO_WAITING = Behaviour(scale_down=ScalingRules(stabilization_window_s=0))


@pytest.fixture(scope="module", name="inventory")
def declared() -> Inventory:
    cluster = with_apps(load_sim_cluster(), APPS)
    found = declare(generate(cluster), cluster, [0])
    return found._replace(
        min_replicas=np.full(APPS, 2, np.int32),
        max_replicas=np.full(APPS, 50, np.int32),
        saturation=np.ones(APPS, np.float32),
    )


def observation_of(
    tick: int = 0, cpu: Any = 6.0, pods: Any = None, missing: Any = 0, **status: Any
) -> Observation:
    """Ten ready pods of one core each at 60 %, by default."""
    values = {"active": 1, "replicas": 10, "request": 1000, "ready": 10, **status}
    observation = Observation(
        tick=np.array([tick], np.int32),
        measured=np.zeros((1, rows.SAMPLES, APPS), np.float32),
        missing=np.zeros((1, APPS), np.int8),
        status=np.zeros((1, rows.STATUS, APPS), np.int32),
        pool=np.zeros((1, 1), POOL_STATUS),
    )
    observation.missing[:] = missing
    observation.measured[0, rows.CPU] = cpu
    observation.measured[0, rows.PODS] = values["ready"] if pods is None else pods
    for name, value in values.items():
        observation.status[0, ROWS[name]] = value
    return observation


def hpa_of(inventory: Inventory, **given_settings: Any) -> Hpa:
    return Hpa(inventory, pools=1, tick_s=10, **{"target": 0.6, **given_settings})


def steps(hpa: Hpa, *observations: Observation) -> list[tuple[list[int], list[int]]]:
    """Replicas and reasons of every tick."""
    state = hpa.start(observations[0])
    found = []
    for observation in observations:
        plan, state = hpa.step(observation, None, state)
        found.append((plan.replicas[0].tolist(), plan.reason[0].tolist()))
    return found


def decided(hpa: Hpa, **observation: Any) -> tuple[list[int], list[int]]:
    """Replicas and reasons of the apps once all have synced: three ticks of the same."""
    found = steps(hpa, *(observation_of(tick, **observation) for tick in range(3)))
    first = DUE.argmax(axis=0)
    replicas = [found[tick][0][app] for app, tick in enumerate(first)]
    return replicas, [found[tick][1][app] for app, tick in enumerate(first)]


def test_an_hpa_syncs_in_two_ticks_of_three(inventory: Inventory) -> None:
    found = steps(hpa_of(inventory), *(observation_of(tick) for tick in range(30)))
    reasons = np.array([reason for _, reason in found])
    assert ((reasons != Reason.HOLD_NOT_DUE).sum(axis=0) == 20).all()
    assert len(np.unique(sync_schedule(200, 10), axis=1).T) == 3, "apps do not sync all at once"


@pytest.mark.parametrize(
    ("observation", "replicas", "reason"),
    [
        ({}, 10, Reason.HOLD_IN_TOLERANCE),
        ({"cpu": 9.0}, 15, Reason.SCALE_OUT),
        ({"cpu": 80.0}, 20, Reason.SCALE_OUT),
        ({"cpu": 2.0}, 10, Reason.HOLD_STABILISING),
        ({"cpu": 9.0, "missing": 1}, 10, Reason.HOLD_NO_METRICS),
        ({"cpu": 9.0, "pods": 0}, 10, Reason.HOLD_NO_METRICS),
        ({"cpu": 9.0, "ready": 0, "starting": 10, "pods": 10}, 10, Reason.HOLD_NO_METRICS),
        ({"cpu": np.nan}, 10, Reason.HOLD_NO_METRICS),
        ({"cpu": np.inf}, 10, Reason.HOLD_NO_METRICS),
        ({"cpu": -1.0}, 10, Reason.HOLD_NO_METRICS),
        ({"cpu": 9.0, "pending": 5}, 10, Reason.HOLD_IN_TOLERANCE),
        ({"cpu": 9.0, "starting": 2}, 15, Reason.SCALE_OUT),
        ({"cpu": 4.5, "pods": 5}, 10, Reason.HOLD_IN_TOLERANCE),
        ({"cpu": 9.0, "replicas": 60, "ready": 60}, 50, Reason.SCALE_IN),
        ({"cpu": 9.0, "replicas": 1, "ready": 1, "missing": 1}, 2, Reason.SCALE_OUT),
        ({"cpu": 0.0, "replicas": 0, "ready": 0}, 0, Reason.HOLD_NO_METRICS),
        ({"cpu": 9.0, "active": 0}, 10, Reason.HOLD_NO_METRICS),
    ],
)
def test_a_sync_decides_with_a_reason(
    inventory: Inventory, observation: dict[str, Any], replicas: int, reason: Reason
) -> None:
    found, reasons = decided(hpa_of(inventory), **observation)
    assert set(found) == {replicas}
    assert set(reasons) == {reason}


def test_a_usage_is_rounded_up_to_millicores_pod_by_pod(inventory: Inventory) -> None:
    # 65.1 millicores are 66 %; 65 would be within a tenth of 60.
    found, _ = decided(hpa_of(inventory, tolerance=(0.09, 0.1)), request=100, cpu=0.651)
    assert set(found) == {11}


def test_zero_samples_count_as_valid(inventory: Inventory) -> None:
    found, reasons = decided(hpa_of(inventory, behaviour=NO_WAITING), cpu=0.0)
    assert set(found) == {2}
    assert set(reasons) == {Reason.SCALE_IN}


def test_a_decrease_waits_until_a_recommendation_is_older_than_300_s(inventory: Inventory) -> None:
    ticks = [
        observation_of(0, cpu=6.0),
        observation_of(1, cpu=6.0),
        *(observation_of(t, cpu=3.0) for t in range(2, 40)),
    ]
    found = np.array([replicas for replicas, _ in steps(hpa_of(inventory), *ticks)])
    last_high = np.where(DUE[1], 1, 0)
    fell = (found < 10).argmax(axis=0)
    assert (10 * (fell - last_high) > 300).all()
    assert (10 * (fell - last_high) <= 320).all()


def test_settings_apply_per_app(inventory: Inventory) -> None:
    even = np.arange(APPS) % 2 == 0
    frozen = Behaviour(scale_up=ScalingRules(select_policy="Disabled"))
    by_target = hpa_of(inventory, target=np.where(even, 0.6, 0.9))
    by_tolerance = hpa_of(inventory, tolerance=(np.where(even, 0.1, 0.6), 0.1))
    by_behaviour = hpa_of(inventory, behaviour=[None if flag else frozen for flag in even])
    for hpa in (by_target, by_tolerance, by_behaviour):
        found, _ = decided(hpa, cpu=9.0)
        assert found == np.where(even, 15, 10).tolist()


def test_behaviour_rules_count_syncs_as_15_s_apart(inventory: Inventory) -> None:
    four = ScalingRules(policies=(Policy(type="Pods", value=4, period_s=15),))
    hpa = hpa_of(inventory, behaviour=Behaviour(scale_up=four))
    state, replicas = hpa.start(observation_of()), np.full(APPS, 10, np.int32)
    for tick in range(6):
        plan, state = hpa.step(observation_of(tick, cpu=99.0, replicas=replicas), None, state)
        replicas = plan.replicas[0].copy()
    assert set(replicas.tolist()) == {10 + 4 * 4}


def test_a_removed_hpa_starts_afresh_when_it_returns(inventory: Inventory) -> None:
    for behaviour in (None, Behaviour()):
        before = [observation_of(tick, cpu=12.0, missing=tick > 2) for tick in range(4)]
        removed = [observation_of(tick, active=0, missing=1) for tick in range(4, 8)]
        returned = [observation_of(tick, cpu=3.0, replicas=8, ready=8) for tick in range(8, 50)]
        found = [replicas for replicas, _ in steps(
            hpa_of(inventory, behaviour=behaviour), *before, *removed, *returned)]  # fmt: skip
        assert set(found[7]) == {10}
        assert {min(row) for row in found[8:37]} == {8}, "the replicas it finds are stored"
        assert {max(row) for row in found[8:37]} == {8}, "old recommendations are not"
        assert np.min(found[-3:], axis=0).max() < 8


ROW = st.lists(st.integers(0, 30), min_size=APPS, max_size=APPS)
CPUS = st.lists(st.floats(0, 60, width=32), min_size=APPS, max_size=APPS)


@few
@given(ROW, ROW, ROW, ROW, CPUS, st.sampled_from([25, 125, 1000]))
def test_many_apps_at_once_decide_like_each_alone(
    inventory: Inventory, ready: list[int], measured: list[int], waiting: list[int],
    current: list[int], cpu: list[float], request: int,
) -> None:  # fmt: skip
    hpa = hpa_of(inventory, behaviour=NO_WAITING_AT_ALL)
    found, _ = synced_twice(hpa, cpu=cpu, pods=measured, ready=ready, pending=waiting,
                            replicas=current, request=request)  # fmt: skip
    for app in range(APPS):
        now, counted = current[app], min(ready[app], measured[app])
        expected = now
        if now > 0 and not 2 <= now <= 50:
            expected = min(max(now, 2), 50)
        elif now > 0 and counted > 0:
            usage = int(
                np.ceil(np.float32(1000) * np.float32(cpu[app]) / np.float32(measured[app]))
            )
            absent = ready[app] - counted
            totals = Totals(
                counted, counted * usage, counted * request, 0, 0, absent, absent * request,
                absent * request, waiting[app], waiting[app] * request,
            )  # fmt: skip
            expected = min(max(int(by_utilisation(totals, 60, now, 0.9, 1.1)[0]), 2), 50)
        assert found[app] == expected


NO_WAITING_AT_ALL = Behaviour(
    scale_up=ScalingRules(policies=(Policy(type="Pods", value=10**6, period_s=1),)),
    scale_down=ScalingRules(stabilization_window_s=0),
)


def synced_twice(hpa: Hpa, **observation: Any) -> tuple[list[int], HpaState]:
    """Replicas of the second sync: the first one counts the replicas it found."""
    state: HpaState = hpa.start(observation_of(**observation))
    result = [0] * APPS
    for tick in range(3, 9):
        plan: Plan
        plan, state = hpa.step(observation_of(tick, **observation), None, state)
        result = np.where(DUE[tick % 3], plan.replicas[0], result).tolist()
    return result, state


@few
@given(ROW, ROW, ROW, CPUS, st.lists(st.integers(0, 1), min_size=APPS, max_size=APPS))
def test_bounds_hold_and_missing_data_never_scales_in(
    inventory: Inventory, ready: list[int], waiting: list[int], current: list[int],
    cpu: list[float], missing: list[int],
) -> None:  # fmt: skip
    for behaviour in (None, NO_WAITING):
        found, _ = synced_twice(hpa_of(inventory, behaviour=behaviour), cpu=cpu, ready=ready,
                                starting=waiting, replicas=current, missing=missing)  # fmt: skip
        for app, replicas in enumerate(found):
            assert 2 <= replicas <= 50 or current[app] == 0
            assert missing[app] == 0 or replicas >= min(current[app], 50)

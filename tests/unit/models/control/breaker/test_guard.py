"""The breakers of a simulated cluster."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.cluster import rows
from models.cluster.plan import Plan, Reason
from models.compare.catalogue import enter
from models.control.breaker.actions import Cause, Phase, action_of, holds, permitted
from models.control.breaker.guard import Basis, Guard, GuardState, permissions
from models.control.breaker.limits import Thresholds
from models.control.fallback import Level
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import load_scenario
from models.sim.world import World

CLUSTER = with_apps(load_sim_cluster(), 20)
WORLD = World(CLUSTER, load_scenario("calm", CLUSTER), [0])
INVENTORY = WORLD.inventory
DOMAINS = len(CLUSTER.domains)
TICK = np.zeros(1, np.int32)
phases = st.sampled_from([*Phase])
causes = st.sampled_from([*Cause])


def state_with(own: tuple[Phase, Cause], cluster: tuple[Phase, Cause]) -> GuardState:
    """Every domain in one state, the cluster in another."""
    state = Guard(INVENTORY).start(WORLD.observe())

    def filled(memory: Any, phase: Phase, cause: Cause) -> Any:
        return memory._replace(
            phase=np.full_like(memory.phase, phase), cause=np.full_like(memory.cause, cause)
        )

    return state._replace(
        breakers=filled(state.breakers, *own), cluster=filled(state.cluster, *cluster)
    )


@settings(max_examples=200, deadline=None)
@given(phases, causes, phases, causes)
def test_arrays_permit_what_the_orders_permit(
    phase: Phase, cause: Cause, cluster_phase: Phase, cluster_cause: Cause
) -> None:
    found = permissions(
        state_with((phase, cause), (cluster_phase, cluster_cause)), INVENTORY.priority
    )
    actions = action_of(phase, cause), action_of(cluster_phase, cluster_cause)
    for domain, priority in enumerate(INVENTORY.priority.tolist()):
        assert tuple(mask[0, domain] for mask in found) == permitted(actions, priority)


changes = st.lists(st.integers(-3, 3), min_size=20, max_size=20)
reasons = st.lists(
    st.sampled_from([Reason.SCALE_OUT, Reason.SCALE_IN, Reason.YIELD, Reason.RESIZE]),
    min_size=20,
    max_size=20,
)


@settings(max_examples=100, deadline=None)
@given(phases, causes, changes, changes, reasons)
def test_it_holds_exactly_what_the_actuator_would(
    phase: Phase, cause: Cause, replicas: list[int], cpu: list[int], why: list[Reason]
) -> None:
    observation = WORLD.observe()
    plan: Plan = WORLD.hold()
    plan.replicas[:] += np.array(replicas, np.int32)
    plan.cpu[:] += np.array(cpu, np.int32)
    plan.reason[:] = why
    wanted = plan.replicas.copy(), plan.cpu.copy()
    # Held for long enough that this tick changes no phase.
    state = state_with((phase, cause), (Phase.CLOSED, Cause.NONE))
    guard = Guard(INVENTORY)
    unlimited = Basis(np.full((1, 2, DOMAINS), np.inf), np.ones_like(observation.measured[:, 0]))
    after = guard.step(observation, None, unlimited, plan, state)
    order = action_of(Phase(after.breakers.phase[0, 0]), Cause(after.breakers.cause[0, 0]))
    status = observation.status[0]
    for app in range(20):
        if status[rows.ACTIVE, app] != 1:
            continue
        priority = int(INVENTORY.priority[status[rows.DOMAIN, app]])
        name = why[app].name.lower().replace("_", "-")
        held = holds(permitted((order,), priority), (replicas[app], cpu[app], 0), name)
        expected = status[rows.REPLICAS, app] if held else wanted[0][0, app]
        assert plan.replicas[0, app] == expected
        assert plan.cpu[0, app] == (status[rows.CPU_REQUEST, app] if held else wanted[1][0, app])


@pytest.mark.parametrize("scenario", ["calm", "metrics-outage"])
def test_a_healthy_run_is_the_same_with_and_without_breakers(scenario: str) -> None:
    plans = []
    for name in ("heuristic:calendar", "heuristic:calendar/no-breaker"):
        match = enter(name, CLUSTER, load_scenario(scenario, CLUSTER), [3])
        run, seen = match.begin(), []
        for _ in range(60):
            run.step()
            seen.append(match.world.state.status[0, rows.REPLICAS].copy())
        plans.append(np.array(seen))
        assert (run.breakers.state is None) == name.endswith("no-breaker")
    np.testing.assert_array_equal(plans[0], plans[1])


def test_baselines_have_no_breakers() -> None:
    match = enter("hpa", CLUSTER, load_scenario("calm", CLUSTER), [3])
    assert match.begin().breakers.state is None


def test_a_fallen_domain_decides_the_next_tick_without_forecasts_and_climbs_back() -> None:
    match = enter("heuristic:calendar", CLUSTER, load_scenario("calm", CLUSTER), [3])
    run = match.begin()
    run.step()
    state = run.breakers.state
    assert state is not None
    assert not state.fallback.level.any()
    assert run.breakers.limit(TICK, run._state).level is state.fallback.level
    fallen = state.fallback._replace(level=np.full_like(state.fallback.level, Level.REACTIVE))
    run.breakers.state = state._replace(fallback=fallen)
    assert (run.breakers.limit(TICK, run._state).level == Level.REACTIVE).all()
    # Nothing is known about the forecasts yet: they are not trusted again.
    for _ in range(2 * Thresholds().probation_ticks):
        run.step()
    assert (run.breakers.limit(TICK, run._state).level == Level.REACTIVE).all()
    for _ in range(3 * Thresholds().probation_ticks):
        run.step()
    assert not run.breakers.limit(TICK, run._state).level.any()


def test_increases_that_a_held_decrease_was_to_pay_for_are_held_as_well() -> None:
    observation, plan = WORLD.observe(), WORLD.hold()
    status = observation.status[0]
    first, second = np.flatnonzero((status[rows.DOMAIN] == 0) & (status[rows.ACTIVE] == 1))[:2]
    plan.replicas[0, first] -= 1
    plan.reason[0, first] = Reason.SCALE_IN
    plan.replicas[0, second] += 1
    plan.reason[0, second] = Reason.SCALE_OUT
    # Each domain may hold what it has, so that an increase needs a decrease.
    held = [
        np.bincount(status[rows.DOMAIN], status[rows.REPLICAS] * status[size], DOMAINS)
        for size in (rows.CPU_REQUEST, rows.MEMORY_REQUEST)
    ]
    basis = Basis(np.array([held]), np.full_like(observation.measured[:, 0], 1e6))
    state = state_with((Phase.HALF_OPEN, Cause.ERRORS), (Phase.CLOSED, Cause.NONE))
    Guard(INVENTORY).step(observation, None, basis, plan, state)
    assert plan.replicas[0].tolist() == status[rows.REPLICAS].tolist()
    assert plan.reason[0, second] == Reason.HOLD_BUDGET

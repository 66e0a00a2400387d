"""A world driven over events and writes evolves bit for bit as in its controller's process."""

from typing import Any

import msgspec
import numpy as np
import pytest

from models.cluster import rows
from models.cluster.observation import Observation
from models.cluster.plan import Plan
from models.compare.catalogue import Match, enter
from models.forecaster.simulated.history import past_of
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import load_scenario
from schemas.capacity_requested import CapacityRequested, NodesByUrgency
from schemas.metrics_sampled import MEASURED, PODS
from services._kit.inventory import pool_records
from services.simcluster.cluster import Observed, SimulatedCluster
from services.simcluster.target import Change

PER_MINUTE = 6
TICKS = 10 * PER_MINUTE
NUMBERS = slice(rows.REPLICAS, rows.MEMORY_REQUEST + 1)


def match_of(apps: int, seed: int = 7) -> Match:
    cluster = with_apps(load_sim_cluster(), apps)
    scenario = load_scenario("flash-sale-20-min-early", cluster)
    # Move the sale into the ten minutes of the test, so that there is something to decide.
    scenario = msgspec.structs.replace(
        scenario,
        warmup_minutes=2,
        events=tuple(
            msgspec.structs.replace(event, at_minute=1.0, jitter_minutes=0.0)
            for event in scenario.events
        ),
    )
    return enter("heuristic:calendar", cluster, scenario, [seed])


def arrays_of(observed: Observed, cluster: SimulatedCluster) -> Observation:
    """Observation events as a controller's arrays: apps without an event are missing."""
    world = cluster.world
    size, index = len(cluster.names), {name: i for i, name in enumerate(cluster.names)}
    measured = np.zeros((1, len(MEASURED), size), np.float32)
    missing = np.ones((1, size), np.int8)
    status = np.zeros((1, rows.STATUS, size), np.int32)
    for domain, batch in enumerate(observed.sampled):
        apps = [index[app] for app in batch.apps]
        status[0, rows.ACTIVE, apps], status[0, rows.DOMAIN, apps] = 1, domain
        for row, name in enumerate(PODS, rows.DOMAIN + 1):
            status[0, row, apps] = getattr(batch, name)
        for row, name in enumerate(MEASURED):
            column = np.array(getattr(batch, name), np.float32)
            missing[0, apps] = np.isnan(column)
            measured[0, row, apps] = np.nan_to_num(column)
    pool = pool_records(world.cluster.pool_names, {event.pool: event for event in observed.pools})
    return Observation(np.array([observed.tick], np.int32), measured, missing, status, pool)


def changes_of(cluster: SimulatedCluster, plan: Plan, domain: int, tick: int) -> list[Change]:
    status = cluster.world.state.status[0]
    wanted = np.stack([plan.replicas[0], plan.cpu[0], plan.memory[0]])
    moved = (wanted != status[NUMBERS]).any(axis=0) & (status[rows.DOMAIN] == domain)
    return [
        Change(
            app=cluster.names[app],
            replicas=int(wanted[0, app]),
            cpu_request=int(wanted[1, app]),
            memory_request=int(wanted[2, app]),
            decision_id=f"{domain}/{tick}",
        )
        for app in np.flatnonzero(moved).tolist()
    ]


def request_of(plan: Plan, pool: int, name: str, tick: int, time: str) -> CapacityRequested:
    critical, essential, comfort, spare = plan.nodes[0, pool].tolist()
    return CapacityRequested(
        tick=tick,
        time=time,
        pool=name,
        epoch=tick // PER_MINUTE,
        valid_until_tick=tick + PER_MINUTE,
        nodes=NodesByUrgency(critical=critical, essential=essential, comfort=comfort, spare=spare),
        min_nodes=int(plan.keep[0, pool]),
    )


def apply_plan(cluster: SimulatedCluster, plan: Plan) -> int:
    """Apply a plan to the cluster and advance it; return how many apps it changed."""
    changed = 0
    for domain, name in enumerate(cluster.world.cluster.domain_names):
        assert not cluster.settled
        entries = cluster.apply(name, cluster.tick, changes_of(cluster, plan, domain, cluster.tick))
        assert all(entry.outcome == "applied" and entry.changed for entry in entries)
        changed += len(entries)
    if cluster.tick % PER_MINUTE == 0:
        time = cluster.observation().time
        for pool, name in enumerate(cluster.world.cluster.pool_names):
            request = request_of(plan, pool, name, cluster.tick, time)
            assert cluster.request_capacity(request) == "accepted"
    assert cluster.settled
    cluster.advance()
    return changed


def assert_same(state: Any, other: Any) -> None:
    for name, mine, theirs in zip(state._fields, state, other, strict=True):
        assert mine.tobytes() == theirs.tobytes(), name


@pytest.mark.parametrize("apps", [155])
def test_over_events_and_writes_the_world_evolves_as_in_process(apps: int) -> None:
    own, other = match_of(apps), match_of(apps)
    in_process, cluster = own.begin(), SimulatedCluster(other.world)
    assert other.forecaster is not None
    seen = arrays_of(cluster.observation(), cluster)
    state, memory = other.controller.start(seen), other.forecaster.start(seen)
    changed = 0
    for _ in range(TICKS):
        in_process.step()
        seen = arrays_of(cluster.observation(), cluster)
        forecast, memory = other.forecaster.step(seen, memory)
        plan, state = other.controller.step(seen, forecast, state)
        changed += apply_plan(cluster, plan)
        assert_same(own.world.state, cluster.world.state)
    assert_same(own.world.accounts, cluster.world.accounts)
    assert changed > 50, "nothing was decided that could have differed"
    assert cluster.results().rows[0].missing_data_decreases == 0


def test_the_backfilled_history_is_what_the_forecaster_would_compute() -> None:
    world = match_of(40).world
    past = past_of(world)
    published = [np.array(event.rps, np.float32) for event in SimulatedCluster(world).history()]
    for domain, minutes in enumerate(published):
        recorded = minutes[past.recorded() + minutes.size]
        assert recorded.tobytes() == past.days[0, domain].tobytes()
        recent = minutes[-past.recent.shape[-1] :]
        assert recent.tobytes() == past.recent[0, domain].tobytes()

"""A simulated cluster reports what a real one would, and applies each decision once."""

import msgspec
import numpy as np
import pytest

from models.cluster import rows
from models.sim.config.events import Inventory, MetricsOutage, Target
from models.sim.config.timeline import CalendarEntry
from models.sim.world import World
from schemas.app_declared import AppDeclared
from schemas.codec import LIMIT_BYTES, encode
from schemas.fields import Event
from schemas.metrics_sampled import MEASURED, PODS
from services.simcluster.cluster import RequestRefused, SimulatedCluster, UnknownDomain
from services.simcluster.target import Numbers
from tests.unit.services.simcluster.simcluster_helpers import (
    CLUSTER,
    DOMAINS,
    POOLS,
    POPULATION,
    change,
    close_all,
    request,
    simulated,
)


def advanced(cluster: SimulatedCluster, ticks: int) -> SimulatedCluster:
    for _ in range(ticks):
        cluster.advance()
    return cluster


def present(cluster: SimulatedCluster, app: str) -> Numbers:
    index = cluster.names.index(app)
    columns = (rows.REPLICAS, rows.CPU_REQUEST, rows.MEMORY_REQUEST)
    return Numbers(*(int(cluster.world.state.status[0, row, index]) for row in columns))


def test_every_app_is_observed_in_its_domain_in_the_order_of_the_inventory() -> None:
    cluster = simulated()
    ordinals = {app.app: app.ordinal for app in cluster.inventory()}
    batches = cluster.observation().sampled
    assert [batch.domain for batch in batches] == list(DOMAINS)
    assert sorted(app for batch in batches for app in batch.apps) == sorted(ordinals)
    for batch in batches:
        assert batch.final
        assert batch.apps == sorted(batch.apps)
        assert [ordinals[app] for app in batch.apps] == sorted(ordinals[app] for app in batch.apps)


def test_before_the_first_measurement_samples_are_null_and_pod_counts_are_not() -> None:
    first = simulated().observation().sampled[0]
    assert all(value is None for name in MEASURED for value in getattr(first, name))
    assert all(len(getattr(first, name)) == len(first.apps) for name in PODS)


def test_samples_equal_what_a_controller_in_the_same_process_observes() -> None:
    cluster = advanced(simulated(), 5)
    seen, index = cluster.observed_arrays(), {name: i for i, name in enumerate(cluster.names)}
    for batch in cluster.observation().sampled:
        for row, name in enumerate(MEASURED):
            for app, value in zip(batch.apps, getattr(batch, name), strict=True):
                missing = seen.missing[0, index[app]] == 1
                assert value == (None if missing else float(seen.measured[0, row, index[app]]))


def test_a_best_effort_app_has_no_latency_target() -> None:
    declared = simulated().inventory()
    targets = POPULATION.apps.latency_target
    assert [app.latency_target_s is None for app in declared] == np.isinf(targets).tolist()
    assert all(sum(_shares(app)) == pytest.approx(1, abs=1e-6) for app in declared)


def _shares(app: AppDeclared) -> list[float]:
    mix = app.request_mix
    return [mix.api, mix.web, mix.batch, mix.stream, mix.event]


def test_every_event_can_be_encoded() -> None:
    cluster = advanced(simulated(), 4)
    found: list[Event] = [*cluster.inventory(), *cluster.history(), *cluster.observation().events]
    records = [record for event in found for record in encode(event, "collector")]
    assert len(records) == len(found)
    assert max(len(record.value) for record in records) <= LIMIT_BYTES


def test_tick_0_is_the_start_of_the_warm_up_on_the_day_of_the_scenario() -> None:
    cluster = advanced(simulated(warmup=2), 12)
    assert cluster.observation().time == "2026-01-06T10:00:00Z"
    assert cluster.history()[0].until == "2026-01-06T09:58:00Z"


def test_an_event_that_is_announced_twice_gets_two_names_in_the_calendar() -> None:
    cluster = simulated()
    entry = CalendarEntry(
        name="sale", domains=("payments",), at_minute=2, length_minutes=1, expected_factor=2.5
    )
    scenario = msgspec.structs.replace(cluster.world.scenario, calendar=(entry, entry))
    world = World(CLUSTER, scenario, [3], POPULATION)
    first, second = SimulatedCluster(world).calendar()
    assert (first.name, second.name) == ("sale", "sale-2")
    assert (first.starts_at, first.ends_at) == ("2026-01-06T10:02:00Z", "2026-01-06T10:03:00Z")
    assert (first.domains, first.expected_factor) == (["payments"], 2.5)


def test_apps_are_declared_when_they_appear_move_and_vanish() -> None:
    cluster = simulated(
        Inventory(name="new", target=Target(apps=(1,)), at_minute=1, change="appear"),
        Inventory(name="gone", target=Target(apps=(0,)), at_minute=2, change="vanish"),
        Inventory(
            name="moved", target=Target(apps=(2,)), at_minute=1, change="move", to_domain="data"
        ),
    )
    added, moved, removed = cluster.names[1], cluster.names[2], cluster.names[0]
    assert added not in {app.app for app in cluster.inventory()}
    declared: dict[str, tuple[int, AppDeclared]] = {}
    for _ in range(18):
        cluster.advance()
        declared |= {app.app: (cluster.tick, app) for app in cluster.observation().declared}
    # Minutes 1 and 2 begin at ticks 6 and 12; the step after shows the change.
    assert declared[added][0] == declared[moved][0] == 7
    assert declared[moved][1].domain == "data"
    assert declared[removed][0] == 13
    assert declared[removed][1].removed
    assert next(app for app in cluster.inventory() if app.app == removed).removed
    data = cluster.observation().sampled[DOMAINS.index("data")]
    assert moved in data.apps
    assert all(removed not in batch.apps for batch in cluster.observation().sampled)
    assert cluster.apply("payments", 18, [change(removed, 3, "d")])[0].outcome == "refused"


def test_a_change_is_carried_out_in_the_next_step() -> None:
    cluster = simulated()
    app = cluster.names[0]
    now = present(cluster, app)
    (entry,) = cluster.apply("payments", 0, [change(app, now.replicas + 2, "d1")])
    assert (entry.outcome, entry.changed) == ("applied", True)
    assert present(cluster, app) == now
    cluster.advance()
    assert present(cluster, app).replicas == now.replicas + 2


def test_a_repeated_decision_changes_nothing() -> None:
    cluster = simulated()
    app = cluster.names[0]
    wanted = present(cluster, app).replicas + 2
    cluster.apply("payments", 0, [change(app, wanted, "d1")])
    cluster.advance()
    (again,) = cluster.apply("payments", 0, [change(app, wanted + 9, "d1")])
    cluster.advance()
    assert (again.outcome, again.changed) == ("repeat", False)
    assert present(cluster, app).replicas == wanted
    assert [entry.outcome for entry in cluster.journal] == ["applied", "repeat"]
    assert cluster.read_back("payments")[app].decision_id == "d1"


def test_a_decision_for_an_older_tick_than_the_last_is_superseded() -> None:
    cluster = advanced(simulated(), 2)
    app, other = cluster.names[0], cluster.names[1]
    now = present(cluster, app)
    cluster.apply("payments", 2, [change(app, now.replicas + 1, "d2")])
    late = cluster.apply("payments", 1, [change(app, 1, "d1"), change(other, 1, "d1")])
    assert [entry.outcome for entry in late] == ["superseded", "superseded"]
    cluster.advance()
    assert present(cluster, app).replicas == now.replicas + 1


def test_a_second_decision_for_a_tick_is_superseded_and_the_rest_of_the_first_applies() -> None:
    cluster = simulated()
    app, other = cluster.names[0], cluster.names[1]
    now = present(cluster, app)
    cluster.apply("payments", 0, [change(app, now.replicas + 1, "d1")])
    second = cluster.apply("payments", 0, [change(app, 1, "d2"), change(other, 1, "d2")])
    assert [entry.outcome for entry in second] == ["superseded", "superseded"]
    rest = cluster.apply("payments", 0, [change(other, 1, "d1")])
    assert [entry.outcome for entry in rest] == ["applied"]
    cluster.advance()
    assert present(cluster, app).replicas == now.replicas + 1


def test_a_change_that_was_decided_against_other_numbers_is_in_conflict() -> None:
    cluster = simulated()
    app, other = cluster.names[0], cluster.names[1]
    now, others = present(cluster, app), present(cluster, other)
    stale = Numbers(now.replicas - 1, now.cpu_request, now.memory_request)
    writes = [
        change(app, 1, "d1", before=stale),
        change(other, others.replicas + 1, "d1", before=others),
    ]
    entries = cluster.apply("payments", 0, writes)
    assert [entry.outcome for entry in entries] == ["conflict", "applied"]
    assert not entries[0].changed
    # A repetition is one, although the numbers are no longer those that it was decided against.
    assert cluster.apply("payments", 0, writes[1:])[0].outcome == "repeat"
    cluster.advance()
    assert present(cluster, app) == now
    assert present(cluster, other).replicas == others.replicas + 1


def test_what_a_domain_has_counts_changes_that_wait_for_the_next_step() -> None:
    cluster = simulated()
    app = cluster.names[0]
    before = cluster.read_back("payments")[app].present
    assert before.numbers == present(cluster, app)
    cluster.apply("payments", 0, [change(app, before.replicas + 2, "d1")])
    waiting = cluster.read_back("payments")[app].present
    assert waiting == msgspec.structs.replace(before, replicas=before.replicas + 2)
    cluster.advance()
    assert cluster.read_back("payments")[app].present.replicas == before.replicas + 2


def test_an_empty_write_closes_the_tick() -> None:
    cluster = simulated()
    assert cluster.closed_tick("fraud") == -1
    assert cluster.apply("fraud", 0, []) == []
    assert cluster.closed_tick("fraud") == 0


def test_a_future_tick_and_an_unknown_domain_are_refused_in_a_sentence() -> None:
    cluster = simulated()
    with pytest.raises(RequestRefused, match="tick 1 is in the future: the cluster is at tick 0"):
        cluster.apply("fraud", 1, [])
    with pytest.raises(UnknownDomain, match="domain nowhere is unknown: expected one of payments"):
        cluster.read_back("nowhere")


def test_a_tick_is_settled_by_all_domains_and_once_a_minute_by_all_pools() -> None:
    cluster, settled = simulated(), []
    for domain in DOMAINS:
        cluster.apply(domain, 0, [])
        settled.append(cluster.settled)
    for pool in POOLS:
        cluster.request_capacity(request(pool, 0))
        settled.append(cluster.settled)
    cluster.advance()
    for domain in DOMAINS:
        cluster.apply(domain, 1, [])
        settled.append(cluster.settled)
    assert np.flatnonzero(settled).tolist() == [
        len(DOMAINS) + len(POOLS) - 1,
        2 * len(DOMAINS) + len(POOLS) - 1,
    ]


def test_what_is_decided_a_tick_too_early_is_refused_and_not_waited_for() -> None:
    cluster = simulated()
    for _ in range(5):
        close_all(cluster)
        cluster.advance()
    with pytest.raises(RequestRefused, match="in the future"):
        cluster.apply("fraud", 7, [])
    assert cluster.request_capacity(request(POOLS[0], 7)) == "refused"
    with pytest.raises(RequestRefused, match="in the future"):
        cluster.apply("fraud", 6, [])
    assert cluster.request_capacity(request(POOLS[0], 6)) == "refused"
    assert cluster.closed_tick("fraud") == 4
    cluster.advance()
    settled = []
    for domain in set(DOMAINS) - {"fraud"}:
        cluster.apply(domain, 6, [])
        settled.append(cluster.settled)
    for pool in POOLS[1:]:
        assert cluster.request_capacity(request(pool, 6, until=24)) == "accepted"
        settled.append(cluster.settled)
    assert np.flatnonzero(settled).tolist() == [len(settled) - 1]
    cluster.advance()
    for domain in set(DOMAINS) - {"fraud"}:
        cluster.apply(domain, 7, [])
    assert not cluster.settled


def launched(cluster: SimulatedCluster) -> int:
    """Nodes that boot or wait for the cloud."""
    return sum(pool.booting + pool.requested for pool in cluster.observation().pools)


def test_nodes_are_requested_once_per_epoch_and_pool() -> None:
    cluster = simulated()
    assert cluster.request_capacity(request(POOLS[0], 0, epoch=4, critical=1)) == "accepted"
    cluster.advance()
    before = launched(cluster)
    assert before == 1
    assert cluster.request_capacity(request(POOLS[0], 0, epoch=4, critical=1)) == "repeat"
    assert cluster.request_capacity(request(POOLS[0], 0, epoch=3, critical=1)) == "superseded"
    assert cluster.request_capacity(request(POOLS[0], 0, epoch=5, until=0)) == "expired"
    assert cluster.request_capacity(request("nowhere", 0)) == "unknown"
    cluster.advance()
    assert launched(cluster) == before


def test_a_request_with_a_wrong_tick_or_epoch_blocks_no_later_one() -> None:
    cluster = simulated()
    assert cluster.request_capacity(request(POOLS[0], 10**9, until=10**9)) == "refused"
    assert cluster.request_capacity(request(POOLS[0], 0, epoch=2**31 - 1)) == "accepted"
    for _ in range(6):
        cluster.advance()
    assert cluster.request_capacity(request(POOLS[0], 6, epoch=1, until=24)) == "accepted"


def test_a_request_coordinates_its_pool_while_it_is_valid() -> None:
    cluster = simulated()
    cluster.request_capacity(request(POOLS[1], 0, until=1, keep=7))
    plans = []
    for _ in range(3):
        plans.append(cluster._plan())
        cluster.world.step(plans[-1])
    assert [plan.coordinated[0, 1] for plan in plans] == [1, 1, 0]
    assert [plan.keep[0, 1] for plan in plans] == [7, 7, 0]
    assert all(plan.coordinated[0, 0] == 0 for plan in plans)


def test_after_the_last_tick_there_are_no_events_and_the_results_are_final() -> None:
    cluster = simulated(minutes=1)
    for _ in range(6):
        close_all(cluster)
        cluster.advance()
    assert cluster.finished
    assert cluster.observation().finished
    assert cluster.observation().events == []
    results = cluster.results()
    assert results.finished
    assert results.rows[0].node_hours > 0
    with pytest.raises(RequestRefused, match="ended at tick 6"):
        cluster.advance()


def test_a_decrease_without_a_sample_is_counted() -> None:
    outage = MetricsOutage(
        name="blind",
        target=Target(domains=("payments",)),
        pipeline="kubelet",
        at_minute=0,
        length_minutes=5,
    )
    cluster = advanced(simulated(outage), 3)
    app = cluster.names[0]
    cluster.apply("payments", 3, [change(app, present(cluster, app).replicas - 1, "d")])
    cluster.advance()
    assert cluster.results().rows[0].missing_data_decreases == 1


def test_costs_are_counted_from_tick_0_including_the_warm_up() -> None:
    cluster = advanced(simulated(warmup=1), 2)
    spent = [pool.spent for pool in cluster.observation().pools]
    cluster.advance()
    more = [pool.spent for pool in cluster.observation().pools]
    assert all(0 < before < after for before, after in zip(spent, more, strict=True))
    # Three ticks after two; the number of nodes hardly changes in between.
    total = 3 / 2 * sum(spent)
    assert sum(more) == pytest.approx(total, rel=0.05)

"""A simulated cluster shows what a cluster would show, and does what it is told, once."""

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
from services.simcluster.cluster import Refused, SimulatedCluster, UnknownDomain
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


def has_now(cluster: SimulatedCluster, app: str) -> Numbers:
    place = cluster.names.index(app)
    columns = (rows.REPLICAS, rows.CPU_REQUEST, rows.MEMORY_REQUEST)
    return Numbers(*(int(cluster.world.state.status[0, row, place]) for row in columns))


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


def test_what_was_not_measured_is_null_and_what_the_api_server_knows_is_not() -> None:
    first = simulated().observation().sampled[0]
    assert all(value is None for name in MEASURED for value in getattr(first, name))
    assert all(len(getattr(first, name)) == len(first.apps) for name in PODS)


def test_samples_are_what_a_controller_in_process_sees() -> None:
    cluster = advanced(simulated(), 5)
    seen, place = cluster.observed_arrays(), {name: i for i, name in enumerate(cluster.names)}
    for batch in cluster.observation().sampled:
        for row, name in enumerate(MEASURED):
            for app, value in zip(batch.apps, getattr(batch, name), strict=True):
                missing = seen.missing[0, place[app]] == 1
                assert value == (None if missing else float(seen.measured[0, row, place[app]]))


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
    told: list[Event] = [*cluster.inventory(), *cluster.history(), *cluster.observation().events]
    records = [record for event in told for record in encode(event, "collector")]
    assert len(records) == len(told)
    assert max(len(record.value) for record in records) <= LIMIT_BYTES


def test_a_tick_ends_at_its_time_and_the_scenario_begins_at_its_own() -> None:
    cluster = advanced(simulated(warmup=2), 12)
    assert cluster.observation().time == "2026-01-06T10:00:00Z"
    assert cluster.history()[0].until == "2026-01-06T09:58:00Z"


def test_the_calendar_is_what_was_announced() -> None:
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


def test_apps_that_come_move_and_go_are_declared_when_they_do() -> None:
    cluster = simulated(
        Inventory(name="new", target=Target(apps=(1,)), at_minute=1, change="appear"),
        Inventory(name="gone", target=Target(apps=(0,)), at_minute=2, change="vanish"),
        Inventory(
            name="moved", target=Target(apps=(2,)), at_minute=1, change="move", to_domain="data"
        ),
    )
    coming, moving, going = cluster.names[1], cluster.names[2], cluster.names[0]
    assert coming not in {app.app for app in cluster.inventory()}
    said: dict[str, tuple[int, AppDeclared]] = {}
    for _ in range(18):
        cluster.advance()
        said |= {app.app: (cluster.tick, app) for app in cluster.observation().declared}
    assert said[coming][0] == said[moving][0] == 7
    assert said[moving][1].domain == "data"
    assert said[going][0] == 13
    assert said[going][1].removed
    assert next(app for app in cluster.inventory() if app.app == going).removed
    data = cluster.observation().sampled[DOMAINS.index("data")]
    assert moving in data.apps
    assert all(going not in batch.apps for batch in cluster.observation().sampled)
    assert cluster.apply("payments", 18, [change(going, 3, "d")])[0].outcome == "refused"


def test_a_change_is_carried_out_in_the_next_step() -> None:
    cluster = simulated()
    app = cluster.names[0]
    now = has_now(cluster, app)
    (entry,) = cluster.apply("payments", 0, [change(app, now.replicas + 2, "d1")])
    assert (entry.outcome, entry.changed) == ("applied", True)
    assert has_now(cluster, app) == now
    cluster.advance()
    assert has_now(cluster, app).replicas == now.replicas + 2


def test_the_same_decision_changes_nothing_again() -> None:
    cluster = simulated()
    app = cluster.names[0]
    wanted = has_now(cluster, app).replicas + 2
    cluster.apply("payments", 0, [change(app, wanted, "d1")])
    cluster.advance()
    (again,) = cluster.apply("payments", 0, [change(app, wanted + 9, "d1")])
    cluster.advance()
    assert (again.outcome, again.changed) == ("repeat", False)
    assert has_now(cluster, app).replicas == wanted
    assert [entry.outcome for entry in cluster.journal] == ["applied", "repeat"]
    assert cluster.read_back("payments")[app].decision_id == "d1"


def test_a_decision_that_is_older_than_the_last_is_refused() -> None:
    cluster = advanced(simulated(), 2)
    app, other = cluster.names[0], cluster.names[1]
    now = has_now(cluster, app)
    cluster.apply("payments", 2, [change(app, now.replicas + 1, "d2")])
    late = cluster.apply("payments", 1, [change(app, 1, "d1"), change(other, 1, "d1")])
    assert [entry.outcome for entry in late] == ["superseded", "superseded"]
    cluster.advance()
    assert has_now(cluster, app).replicas == now.replicas + 1


def test_a_tick_is_decided_once() -> None:
    cluster = simulated()
    app, other = cluster.names[0], cluster.names[1]
    now = has_now(cluster, app)
    cluster.apply("payments", 0, [change(app, now.replicas + 1, "d1")])
    second = cluster.apply("payments", 0, [change(app, 1, "d2"), change(other, 1, "d2")])
    assert [entry.outcome for entry in second] == ["superseded", "superseded"]
    rest = cluster.apply("payments", 0, [change(other, 1, "d1")])
    assert [entry.outcome for entry in rest] == ["applied"]
    cluster.advance()
    assert has_now(cluster, app).replicas == now.replicas + 1


def test_an_empty_write_closes_the_tick() -> None:
    cluster = simulated()
    assert cluster.closed_tick("fraud") == -1
    assert cluster.apply("fraud", 0, []) == []
    assert cluster.closed_tick("fraud") == 0


def test_what_cannot_be_is_refused_in_a_sentence() -> None:
    cluster = simulated()
    with pytest.raises(Refused, match="tick 1 is in the future: the cluster is at tick 0"):
        cluster.apply("fraud", 1, [])
    with pytest.raises(UnknownDomain, match="domain nowhere is unknown: expected one of payments"):
        cluster.read_back("nowhere")


def test_a_tick_is_settled_when_every_domain_and_at_the_minute_every_pool_has_decided() -> None:
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


def launched(cluster: SimulatedCluster) -> int:
    """Nodes that boot or wait for the cloud."""
    return sum(pool.booting + pool.requested for pool in cluster.observation().pools)


def test_nodes_are_asked_for_once_per_epoch_and_pool() -> None:
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


def test_a_request_with_a_tick_or_an_epoch_of_nonsense_keeps_out_no_later_one() -> None:
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


def test_after_the_last_tick_there_is_nothing_to_see_and_the_figures_are_there() -> None:
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
    with pytest.raises(Refused, match="ended at tick 6"):
        cluster.advance()


def test_a_decrease_without_a_sample_is_counted() -> None:
    outage = MetricsOutage(
        name="blind",
        target=Target(domains=("payments",)),
        at_minute=0,
        mode="missing",
        length_minutes=5,
    )
    cluster = advanced(simulated(outage), 3)
    app = cluster.names[0]
    cluster.apply("payments", 3, [change(app, has_now(cluster, app).replicas - 1, "d")])
    cluster.advance()
    assert cluster.results().rows[0].missing_data_decreases == 1


def test_money_is_counted_from_the_origin_on() -> None:
    cluster = advanced(simulated(warmup=1), 2)
    spent = [pool.spent for pool in cluster.observation().pools]
    cluster.advance()
    more = [pool.spent for pool in cluster.observation().pools]
    assert all(0 < before < after for before, after in zip(spent, more, strict=True))
    total = 3 / 2 * sum(spent)
    assert sum(more) == pytest.approx(total, rel=0.05)

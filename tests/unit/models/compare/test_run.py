"""A run ends with its scenario, records without side effects and counts unfounded decreases."""

import msgspec
import numpy as np
import pytest

from models.baselines.hpa.simulated import hpa_of
from models.cluster import rows
from models.cluster.observation import Pipeline
from models.compare.ablation import heuristic_of
from models.compare.run import missing_data_decreases, run, without_sample
from models.control.tuned import tuned_parameters
from models.sim.accounting import ARRIVED, NODE_TICKS, VIOLATED
from models.sim.config.events import Deploy, Inventory, MetricsOutage, Target, Traffic
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import Scenario
from models.sim.population.generate import generate
from models.sim.results.recording import Recorder
from models.sim.results.spans import event_spans
from models.sim.results.summary import summarise
from models.sim.world import World

SPIKE = Traffic(
    name="spike", target=Target(domains=("payments",)), at_minute=2, factor=2.0, hold_minutes=3
)
DEPLOY = Deploy(name="release", target=Target(domains=("fraud",)), at_minute=1, over_minutes=2)
OUTAGE = MetricsOutage(
    name="blind", target=Target(domains=("data",)), pipeline="exporter", mode="zero", at_minute=3,
    length_minutes=4,
)  # fmt: skip


def make_world(seeds: tuple[int, ...] = (0,)) -> World:
    scenario = Scenario(
        name="short", shows="A spike, a deploy and an outage.", start="Mon 10:00",
        length_minutes=10, warmup_minutes=2, events=(SPIKE, DEPLOY, OUTAGE),
    )  # fmt: skip
    return World(with_apps(load_sim_cluster(), 40), scenario, seeds)


@pytest.fixture(scope="module")
def recorded() -> tuple[World, Recorder]:
    world = make_world()
    recorder = Recorder(world)
    run(world, hpa_of(world), on_tick=recorder)
    return world, recorder


def test_a_run_ends_with_the_scenario(recorded: tuple[World, Recorder]) -> None:
    world, recorder = recorded
    assert world.tick == recorder.ticks == 72


def test_the_recording_agrees_with_the_accounts(recorded: tuple[World, Recorder]) -> None:
    world, recorder = recorded
    record, first = recorder.recording, world.timeline.warmup_ticks
    flows = world.accounts.domains[0]
    arrived = 10 * record.rps[first:]
    assert arrived.sum(axis=0) == pytest.approx(flows[:, ARRIVED], rel=1e-4)
    violated = (arrived * record.violating[first:]).sum(axis=0)
    assert violated == pytest.approx(flows[:, VIOLATED], rel=1e-3, abs=1)
    assert (record.waits[first:].sum(axis=0) == world.accounts.waits[0]).all()
    nodes = (record.nodes_ready + record.nodes_booting)[first:].sum()
    assert nodes == world.accounts.totals[0, NODE_TICKS]


def test_recording_does_not_change_the_run(recorded: tuple[World, Recorder]) -> None:
    alone = make_world()
    run(alone, hpa_of(alone))
    assert (alone.accounts.totals == recorded[0].accounts.totals).all()


def test_event_spans_match_the_times_of_the_events(recorded: tuple[World, Recorder]) -> None:
    spike, release, blind = event_spans(recorded[0])
    assert (spike.name, spike.start, spike.end) == ("spike", 24, 44)
    assert 18 <= release.start <= release.end <= 30
    assert (blind.start, blind.end) == (30, 54)


def test_event_spans_leave_out_events_that_affect_no_app() -> None:
    cluster, scenario = with_apps(load_sim_cluster(), 5), make_world().scenario
    tiers, only = cluster.domains[0].tiers, int(generate(cluster).apps.tier[0])
    nowhere = Target(domains=("payments",), tiers=(tiers[only - 1],))
    gone = Inventory(name="gone", target=nowhere, change="vanish", at_minute=1)
    release = Deploy(name="nothing", target=nowhere, at_minute=1)
    events = (gone, release, *scenario.events)
    world = World(cluster, msgspec.structs.replace(scenario, events=events), [0])
    assert [span.name for span in event_spans(world)] == ["spike", "release", "blind"]


def test_a_zero_sent_on_error_counts_as_missing() -> None:
    world = make_world((0, 1))
    data = world.population.apps.domain == 3
    observation = world.observe()
    observation.missing[:] = 0
    # The last tick whose window has a scrape from before the outage, and the next.
    observation.tick[:] = 36, 37
    blind = without_sample(world, observation, Pipeline.OURS)
    assert not blind[0].any()
    assert (blind[1] == data).all()
    assert not without_sample(world, observation, Pipeline.HPA).any(), "HPA reads no exporter"


def test_decreases_without_a_sample_are_counted_per_app_and_dimension() -> None:
    world = make_world((0, 1))
    observation, plan = world.observe(), world.hold()
    blind = np.zeros(plan.replicas.shape, np.bool_)
    blind[1, :2] = True
    assert missing_data_decreases(observation, plan, blind).tolist() == [0, 0]
    plan.replicas[:, :3] -= 1
    plan.cpu[:, 1] -= 1
    plan.memory[:, 1] -= 1
    assert missing_data_decreases(observation, plan, blind).tolist() == [0, 3]
    plan.replicas[:] = observation.status[:, rows.REPLICAS] + 1
    assert missing_data_decreases(observation, plan, blind).tolist() == [0, 1]


def test_the_price_of_insurance_is_counted_apart_and_only_where_something_is_insured() -> None:
    scenario = Scenario(
        name="quiet", shows="Nothing.", start="Mon 10:00", length_minutes=20, warmup_minutes=5
    )
    plain = with_apps(load_sim_cluster(), 155)
    first, *others = plain.domains
    insured = msgspec.structs.replace(
        plain, domains=(msgspec.structs.replace(first, survive="zone"), *others)
    )
    # The cushion of P0 would carry the loss anyway, and leave the insurance without a price.
    parameters = tuned_parameters()._replace(cushion_p0=0.0, cushion_p1=0.0)
    rows = {}
    for name, cluster in (("none", plain), ("zone", insured)):
        world = World(cluster, scenario, [0])
        decisions = run(world, heuristic_of(world, parameters))
        (rows[name],) = summarise(world, name, decisions)
    assert (rows["none"].insurance_node_hours, rows["none"].insurance_money) == (0.0, 0.0)
    hours, money = rows["zone"].insurance_node_hours, rows["zone"].insurance_money
    assert hours is not None
    assert money is not None
    assert 0.0 < hours < rows["zone"].node_hours
    assert 0.0 < money < rows["zone"].money
    assert rows["zone"].node_hours > rows["none"].node_hours
    world = World(plain, scenario, [0])
    (hpa,) = summarise(world, "hpa", run(world, hpa_of(world)))
    assert hpa.insurance_node_hours is None

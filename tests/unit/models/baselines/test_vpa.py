"""VPA's recommender against figures computed by hand, and the rules of its updater."""

import numpy as np
import pytest

from models.baselines.decaying import (
    CPU_FIRST,
    add_samples,
    bucket_of,
    bucket_start,
    empty_histograms,
    percentiles,
)
from models.baselines.vpa import Parameters, Past, Vpa, VpaState, vpa_of
from models.cluster import rows
from models.cluster.observation import Observation
from models.cluster.plan import Reason
from models.compare.run import run
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import Scenario, load_scenario
from models.sim.observe import empty_observation
from models.sim.world import World

APPS = 40
MINUTE = 6


@pytest.fixture(scope="module")
def world() -> World:
    cluster = with_apps(load_sim_cluster(), APPS)
    return World(cluster, load_scenario("calm", cluster), [0])


def vpa_on(world: World, past: Past | None = None, **values: float) -> Vpa:
    inventory = world.inventory
    all_busy = inventory._replace(saturation=np.ones(APPS, np.float32))
    at_once = {"updated_share": 1.0, **values}
    return Vpa(all_busy, world.layout.pools, Parameters(**at_once), past=past)


def observation_of(world: World, cores: float, pods: int = 10) -> Observation:
    """Every app has `pods` pods of one core and one GiB; each uses `cores` and half a GiB."""
    observation = empty_observation(world.state)
    observation = observation._replace(status=world.state.status.copy())
    for row in (rows.REPLICAS, rows.READY):
        observation.status[:, row] = pods
    observation.status[:, (rows.STARTING, rows.PENDING)] = 0
    observation.status[:, rows.CPU_REQUEST], observation.status[:, rows.MEMORY_REQUEST] = 1000, 1024
    observation.measured[:, rows.PODS] = pods
    observation.measured[:, rows.CPU] = cores * pods
    observation.measured[:, rows.MEMORY] = 0.5 * pods
    return observation


def started(vpa: Vpa, observation: Observation) -> VpaState:
    observation.tick[:] = 0
    state = vpa.start(observation)
    observation.tick[:] = MINUTE
    return state


def test_bucket_starts_follow_the_geometric_series() -> None:
    assert [bucket_start(n, 0.01) for n in (0, 1, 2)] == pytest.approx([0.0, 0.01, 0.0205])
    assert [bucket_of(value, 0.01) for value in (0.0, 0.0099, 0.0101, 0.0206)] == [0, 0, 1, 2]
    # ln(0.5 x 0.05 / 0.01 + 1) / ln 1.05 = 25.68
    assert bucket_of(0.5, 0.01) == 25
    assert bucket_of(1e9, 0.01) == 175


def test_a_percentile_is_the_end_of_its_bucket() -> None:
    histograms, out = empty_histograms(1, 1), np.zeros((3, 1, 1))
    for value, weight in ((0.005, 50.0), (0.5, 45.0), (2.0, 5.0)):
        add_samples(histograms, np.full((1, 1), value), np.full((1, 1), weight), CPU_FIRST)
    percentiles(histograms, np.array([0.5, 0.9, 0.96]), CPU_FIRST, out)
    # Ends of the buckets 0, 25 and 49: 0.01 x (1.05^n - 1) / 0.05.
    assert out[:, 0, 0] == pytest.approx([0.01, 0.51113, 2.09348], rel=1e-4)


def test_steady_use_is_recommended_with_margin_and_confidence(world: World) -> None:
    vpa, observation = vpa_on(world), observation_of(world, cores=0.5)
    state = started(vpa, observation)
    vpa.step(observation, None, state)
    found = vpa.recommend(observation, state).cpu[:, 0, 0]
    end, days = 511.1345, 8 + 60 / 86400
    by_hand = [end * 1.15 * (1 + 0.001 / days) ** -2, end * 1.15, end * 1.15 * (1 + 1 / days)]
    assert found == pytest.approx(by_hand, rel=1e-5)


def test_an_oversized_app_is_resized_to_the_target_and_then_left_alone(world: World) -> None:
    vpa, observation = vpa_on(world), observation_of(world, cores=0.5)
    state = started(vpa, observation)
    plan, state = vpa.step(observation, None, state)
    assert (plan.cpu == 588).all()
    # The end of the bucket of half a GiB is 536.9 MB or less than 1.05 above; times 1.15.
    assert ((plan.memory >= 588) & (plan.memory <= 620)).all()
    observation.status[:, rows.CPU_REQUEST], observation.status[:, rows.MEMORY_REQUEST] = (
        plan.cpu,
        plan.memory,
    )
    observation.tick[:] = 2 * MINUTE
    repeated, _ = vpa.step(observation, None, state)
    assert (repeated.cpu == plan.cpu).all()
    assert (repeated.memory == plan.memory).all()


def test_requests_never_go_below_25_millicores_and_250_megabytes(world: World) -> None:
    vpa, observation = vpa_on(world), observation_of(world, cores=0.001)
    observation.measured[:, rows.MEMORY] = 0.01
    plan, _ = vpa.step(observation, None, started(vpa, observation))
    assert (plan.cpu == 25).all()
    assert (plan.memory == 239).all()  # 250 MB in MiB, rounded up


def test_an_hour_of_spike_does_not_move_the_90th_percentile_of_days(world: World) -> None:
    vpa, calm, spike = (
        vpa_on(world),
        observation_of(world, cores=0.5),
        observation_of(world, cores=0.95),
    )
    state = started(vpa, calm)
    vpa.step(calm, None, state)
    before = vpa.recommend(calm, state).cpu[1].copy()
    for minute in range(2, 62):
        spike.tick[:] = minute * MINUTE
        _, state = vpa.step(spike, None, state)
    assert (vpa.recommend(spike, state).cpu[1] == before).all()


def test_past_use_is_present_use_times_relative_traffic(world: World) -> None:
    relative = np.ones((1, 10, APPS), np.float32)
    relative[:, :3] = 2.0
    past = Past(relative, np.full(10, 3600.0))
    vpa, observation = vpa_on(world, past, margin=0.0), observation_of(world, cores=0.25)
    state = started(vpa, observation)
    vpa.step(observation, None, state)
    assert vpa.recommend(observation, state).cpu[1, 0, 0] == pytest.approx(511.13, rel=1e-4)


def test_a_higher_memory_peak_replaces_the_earlier_one_of_the_day(world: World) -> None:
    vpa, observation = vpa_on(world), observation_of(world, cores=0.5)
    state = started(vpa, observation)
    _, state = vpa.step(observation, None, state)
    total = state.memory.total.copy()
    observation.measured[:, rows.MEMORY] *= 1.8
    observation.tick[:] = 2 * MINUTE
    plan, state = vpa.step(observation, None, state)
    assert state.memory.total == pytest.approx(total, rel=1e-3)
    assert (plan.memory > 0.9 * 1024 * 1.15).all()


def test_single_pods_and_apps_without_samples_are_not_resized(world: World) -> None:
    vpa, observation = vpa_on(world), observation_of(world, cores=0.1, pods=1)
    plan, _ = vpa.step(observation, None, started(vpa, observation))
    assert (plan.cpu == 1000).all()
    unmeasured = observation_of(world, cores=0.1)
    unmeasured.missing[:] = 1
    plan, state = vpa.step(unmeasured, None, started(vpa, unmeasured))
    assert (plan.cpu == 1000).all()
    assert state.cpu.total.sum() == 0


def test_apps_that_saturate_early_keep_their_cpu_request(world: World) -> None:
    inventory = world.inventory
    early = inventory._replace(saturation=np.full(APPS, 0.5, np.float32))
    vpa = Vpa(early, world.layout.pools, Parameters(updated_share=1.0))
    observation = observation_of(world, cores=0.3)
    plan, _ = vpa.step(observation, None, started(vpa, observation))
    assert (plan.cpu == 1000).all()
    assert (plan.memory < 1024).all()


def test_each_minute_resizes_a_share_of_the_apps_largest_difference_first(world: World) -> None:
    vpa, observation = vpa_on(world, updated_share=0.1), observation_of(world, cores=0.5)
    observation.measured[:, rows.CPU, 7] = 9.0
    observation.measured[:, rows.CPU, :3] = 0.3
    plan, state = vpa.step(observation, None, started(vpa, observation))
    resized = plan.reason[0] == int(Reason.RESIZE)
    assert resized.sum() == 4
    assert resized[:3].all()
    observation.status[:, rows.CPU_REQUEST], observation.status[:, rows.MEMORY_REQUEST] = (
        plan.cpu,
        plan.memory,
    )
    observation.tick[:] = 2 * MINUTE
    repeated, _ = vpa.step(observation, None, state)
    assert ((repeated.reason[0] == int(Reason.RESIZE)) & ~resized).sum() == 4


def test_vpa_changes_no_replicas_and_acts_once_a_minute() -> None:
    scenario = Scenario(
        name="short", shows="Nothing.", start="Mon 10:00", length_minutes=4, warmup_minutes=1
    )
    world = World(with_apps(load_sim_cluster(), APPS), scenario, (0, 1))
    before = world.state.status[:, rows.REPLICAS].copy()
    run(world, vpa_of(world))
    assert (world.state.status[:, rows.REPLICAS] == before).all()
    assert (world.state.status[:, rows.CPU_REQUEST] != np.float32(0)).all()

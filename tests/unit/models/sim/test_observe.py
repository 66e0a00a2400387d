"""Observations are late, noisy and incomplete, and never contain the true state."""

from typing import Literal

import msgspec
import numpy as np
import pytest

from models.cluster import rows
from models.cluster.observation import Pipeline
from models.compare.hpa_worlds import HpaWorld
from models.sim.config.events import MetricsOutage, Target
from models.sim.config.physics import SimCluster, with_physics
from models.sim.observe import window_weights
from models.sim.state import EXPORTED, SAMPLE_RING
from models.sim.world import World
from models.validate.repeatability import decision_changes
from models.validate.worlds import plain_apps, still_cluster, still_scenario

APPS = 300
PipelineName = Literal["metrics-server", "kubelet", "exporter"]
Mode = Literal["missing", "zero", "stale"]


def observed_cluster(**metrics: float) -> SimCluster:
    cluster = still_cluster(pods=APPS)
    return with_physics(
        cluster, metrics=msgspec.structs.replace(cluster.physics.metrics, **metrics)
    )


def world_of(cluster: SimCluster, *events: MetricsOutage) -> World:
    return World(cluster, still_scenario(events), [1], plain_apps(APPS))


def ages(world: World, pipeline: Pipeline) -> list[float]:
    """Mean age of the observed samples in seconds, by tick: each sample holds its tick."""
    found = []
    for tick in range(24):
        world.step(world.hold())
        world.state.samples[0, tick % SAMPLE_RING, rows.CPU] = tick
        # Before that the ring holds slots that were never written.
        if tick >= SAMPLE_RING:
            observed = world.observe(pipeline).measured[0, rows.CPU]
            found.append(10.0 * float((tick - observed).mean()))
    return found


def test_a_decision_does_not_depend_on_hidden_state() -> None:
    assert decision_changes(apps=60, ticks=150, every=10) == []


def test_the_api_servers_answers_are_read_only() -> None:
    observed = world_of(observed_cluster()).observe()
    with pytest.raises(ValueError, match="read-only"):
        observed.status[0, 0, 0] = 1


def test_hpa_sees_measurements_27_and_a_half_seconds_late_on_average() -> None:
    assert np.mean(ages(world_of(observed_cluster()), Pipeline.HPA)) == pytest.approx(27.5, abs=1)


@pytest.mark.parametrize(
    ("lag", "window", "age"), [(10, 60, 35), (10, 10, 10), (0, 0, 0), (10, 120, 65), (15, 60, 40)]
)
def test_our_samples_are_means_of_a_window_that_ends_with_the_lag(
    lag: float, window: float, age: float
) -> None:
    # The mean of six ticks, of which the newest is one tick old.
    world = world_of(observed_cluster(lag_s=lag, window_s=window))
    assert ages(world, Pipeline.OURS) == pytest.approx([age] * 8)


def test_a_window_weights_ticks_by_what_is_inside() -> None:
    assert window_weights(10, 60, 10).tolist() == [0, 1, 1, 1, 1, 1, 1]
    assert window_weights(0, 15, 10).tolist() == [1, 0.5]
    assert window_weights(15, 20, 10).tolist() == [0, 0.5, 1, 0.5]
    assert window_weights(10, 0, 10).tolist() == [0, 1]


def test_a_window_has_shares_of_requests_the_highest_p99_and_the_last_memory() -> None:
    world = world_of(observed_cluster(lag_s=0, window_s=20))
    for tick, sample in enumerate(([100.0, 0.1, 3.0, 4.0], [300.0, 0.5, 1.0, 2.0])):
        world.step(world.hold())
        for row, value in zip((rows.RPS, rows.ERRORS, rows.P99, rows.MEMORY), sample, strict=True):
            world.state.samples[0, tick, row] = value
    seen = world.observe().measured[0]
    assert seen[rows.RPS] == pytest.approx(200)
    assert seen[rows.ERRORS] == pytest.approx((10 + 150) / 400)
    assert seen[rows.P99] == pytest.approx(3)
    assert seen[rows.MEMORY] == pytest.approx(2)


def test_the_configured_share_of_samples_is_missing() -> None:
    world = world_of(observed_cluster(missing_share=0.2))
    shares = []
    for _ in range(40):
        world.step(world.hold())
        shares.append(world.observe().missing.mean())
    assert np.mean(shares[5:]) == pytest.approx(0.2, abs=0.02)
    assert shares[0] == 1.0, "nothing arrives before the lag is over"


def test_noise_has_the_configured_width_and_no_bias() -> None:
    world = world_of(observed_cluster(noise=0.1))
    for _ in range(10):
        world.step(world.hold())
    # Ticks 3 to 8: tick 9 was the last, and ours is one tick late.
    truth = world.state.samples[0, 3:9, rows.CPU].mean(axis=0)
    ratio = world.observe().measured[0, rows.CPU] / truth
    assert ratio.std() == pytest.approx(0.1, rel=0.15)
    assert ratio.mean() == pytest.approx(1.0, abs=0.02)


def outage(pipeline: PipelineName, mode: Mode = "missing") -> MetricsOutage:
    """App 3 from tick 6 to tick 17."""
    return MetricsOutage(
        name="blind", target=Target(apps=(3,)), pipeline=pipeline, mode=mode,
        at_minute=1, length_minutes=2,
    )  # fmt: skip


def flags(world: World, pipeline: Pipeline) -> list[int]:
    found = []
    for _ in range(24):
        world.step(world.hold())
        found.append(int(world.observe(pipeline).missing[0, 3]))
    return found


def test_no_pipeline_delivers_unflagged_zeros_before_its_first_sample() -> None:
    for pipeline in Pipeline:
        world = world_of(observed_cluster())
        for _ in range(12):
            observed = world.observe(pipeline)
            cpu = observed.measured[0, rows.CPU][observed.missing[0] == 0]
            assert (cpu > 0).all(), f"{pipeline.name} at tick {world.tick}"
            world.step(world.hold())
        assert not observed.missing.any()


def test_an_exporter_that_answers_zero_fades_unflagged_and_leaves_cpu_and_memory() -> None:
    world = world_of(observed_cluster(), outage("exporter", "zero"))
    # At tick 10 the window has ticks 3 to 8, of which the last three are zero.
    for _ in range(10):
        world.step(world.hold())
    observed = world.observe()
    truth = world.state.samples[0, 3:6, rows.RPS, 3].sum() / 6
    assert observed.measured[0, rows.RPS, 3] == pytest.approx(truth, rel=1e-5)
    assert observed.measured[0, rows.P99, 3] > 0
    for _ in range(3):
        world.step(world.hold())
    observed = world.observe()
    assert (observed.measured[0, :EXPORTED, 3] == 0).all()
    assert (observed.measured[0, EXPORTED:, 3] > 0).all()
    assert not observed.missing.any()


def test_a_stuck_exporter_repeats_its_last_values_without_noise() -> None:
    world = world_of(observed_cluster(noise=0.1), outage("exporter", "stale"))
    for _ in range(6):
        world.step(world.hold())
    before = world.state.samples[0, 5 % SAMPLE_RING, :EXPORTED, 3].copy()
    for _ in range(7):
        world.step(world.hold())
    # From tick 13 on the whole window is within the outage.
    for _ in range(4):
        assert world.observe().measured[0, :EXPORTED, 3] == pytest.approx(before, rel=1e-5)
        world.step(world.hold())
    assert not world.observe().missing.any()


@pytest.mark.parametrize(
    ("pipeline", "ours", "hpa"),
    [("exporter", 12, 0), ("metrics-server", 0, 12), ("kubelet", 12, 12)],
)
def test_an_outage_is_flagged_for_those_who_read_the_pipeline_and_ends(
    pipeline: PipelineName, ours: int, hpa: int
) -> None:
    cluster = observed_cluster()
    for reader, expected in ((Pipeline.OURS, ours), (Pipeline.HPA, hpa)):
        found = flags(world_of(cluster, outage(pipeline)), reader)
        # The outage starts after six ticks and lasts twelve.
        assert sum(found[5:17]) == expected
        assert sum(found[17:]) == 0


def test_hpa_holds_while_metrics_server_fails() -> None:
    world = world_of(observed_cluster(), outage("metrics-server"))
    hpa = HpaWorld(world)
    replicas = []
    hpa.run(17, lambda after: replicas.append(int(after.state.status[0, rows.REPLICAS, 3])))
    assert len(set(replicas[6:])) == 1


def test_only_an_exporter_can_answer_zero() -> None:
    with pytest.raises(ValueError, match="expected missing, the only way that kubelet fails"):
        outage("kubelet", "zero")

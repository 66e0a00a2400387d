"""Observations are late, noisy and incomplete, and never contain the true state."""

import msgspec
import numpy as np
import pytest

from models.cluster import rows
from models.cluster.observation import Pipeline
from models.sim.config.events import MetricsOutage, Target
from models.sim.config.physics import SimCluster, with_physics
from models.sim.state import SAMPLE_RING
from models.sim.world import World
from models.validate.repeatability import decision_changes
from models.validate.worlds import plain_apps, still_cluster, still_scenario

APPS = 300


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


def test_our_pipeline_is_one_tick_late() -> None:
    assert ages(world_of(observed_cluster()), Pipeline.OURS) == pytest.approx([10.0] * 16)


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
    # Tick 9 was the last; ours is one tick late.
    truth = world.state.samples[0, 8 % SAMPLE_RING, rows.CPU]
    ratio = world.observe().measured[0, rows.CPU] / truth
    assert ratio.std() == pytest.approx(0.1, rel=0.15)
    assert ratio.mean() == pytest.approx(1.0, abs=0.02)


def test_a_zero_outage_reads_zero_and_is_not_flagged() -> None:
    outage = MetricsOutage(
        name="zero", target=Target(apps=(3,)), mode="zero", at_minute=1, length_minutes=2
    )
    world = world_of(observed_cluster(missing_share=0.5), outage)
    for _ in range(10):
        world.step(world.hold())
        observed = world.observe()
        if world.tick > 6:
            assert (observed.measured[0, : rows.PODS, 3] == 0).all()
            assert observed.missing[0, 3] == 0


def test_a_missing_outage_is_flagged_and_ends() -> None:
    outage = MetricsOutage(
        name="gone", target=Target(apps=(3,)), mode="missing", at_minute=1, length_minutes=2
    )
    world = world_of(observed_cluster(), outage)
    flags = []
    for _ in range(24):
        world.step(world.hold())
        flags.append(int(world.observe().missing[0, 3]))
    # The outage starts after six ticks and lasts twelve.
    assert sum(flags[5:17]) == 12
    assert sum(flags[17:]) == 0

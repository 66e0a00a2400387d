"""Request types differ in work: a shift of the mix changes only the work per request."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from models.cluster import rows
from models.cluster.inventory import REQUEST_TYPES
from models.inputs import yamlfile
from models.inputs.errors import InputError
from models.sim.apps import Population
from models.sim.config.compile import mean_work, work_change
from models.sim.config.events import Event, Mix, Target
from models.sim.config.physics import load_sim_cluster
from models.sim.config.scenario import Scenario
from models.sim.population.generate import generate
from models.sim.state import PAYLOAD, SAMPLE_RING
from models.sim.world import World
from models.validate.worlds import plain_apps, still_cluster, still_scenario

WORK = load_sim_cluster().physics.population.request_work
MIXES = np.array([[1, 0, 0, 0, 0], [0.5, 0, 0.5, 0, 0], [0, 0, 1, 0, 0]], np.float32)
TO_BATCH = Mix(
    name="export",
    target=Target(apps=(0, 1, 2)),
    from_type="api",
    to_type="batch",
    share=0.5,
    at_minute=2,
    hold_minutes=60,
)


def three_apps() -> Population:
    """Only API requests, half of each, only batches."""
    population = plain_apps(3, start_replicas=10, cpu_seconds=1e-3, own_rps=1000, mean_rps=1000)
    return population._replace(apps=population.apps._replace(request_mix=MIXES))


def work_per_request(*events: Event) -> list[float]:
    """CPU seconds of a request of each app after three minutes."""
    world = World(still_cluster(100), still_scenario(events), [1], three_apps())
    for _ in range(18):
        world.step(world.hold())
    sample = world.state.samples[0, 17 % SAMPLE_RING]
    return [float(seconds) for seconds in sample[rows.CPU] / sample[rows.RPS]]


def test_the_declared_mix_costs_what_the_app_was_calibrated_to() -> None:
    assert work_per_request() == pytest.approx([1e-3] * 3)


def test_requests_that_become_batches_are_more_work_in_proportion_to_the_mix() -> None:
    # Half of the API requests become batches; the second app has half as many of them.
    half = 0.5 * (WORK.batch - WORK.api)
    expected = [1 + half / WORK.api, 1 + 0.5 * half / (0.5 * WORK.api + 0.5 * WORK.batch), 1]
    assert work_per_request(TO_BATCH) == pytest.approx([1e-3 * each for each in expected])


def test_a_shift_to_lighter_requests_is_less_work() -> None:
    lighter = msgspec.structs.replace(TO_BATCH, from_type="batch", to_type="stream", share=1.0)
    seconds = work_per_request(lighter)
    assert seconds[0] == pytest.approx(1e-3)
    assert seconds[2] == pytest.approx(1e-3 * WORK.stream / WORK.batch)


def test_shifting_a_whole_type_costs_the_work_of_the_new_mix() -> None:
    mix = generate(load_sim_cluster()).apps.request_mix
    shifted = mix.copy()
    api, batch = REQUEST_TYPES.index("api"), REQUEST_TYPES.index("batch")
    shifted[:, batch] += shifted[:, api]
    shifted[:, api] = 0
    expected = mean_work(shifted, WORK) / mean_work(mix, WORK)
    assert 1 + work_change(mix, WORK, "api", "batch") == pytest.approx(expected, rel=1e-5)


def test_jitter_never_raises_a_share_above_one() -> None:
    event = msgspec.structs.replace(TO_BATCH, share=1.0, share_jitter=0.9)
    world = World(still_cluster(100), still_scenario([event]), list(range(12)), three_apps())
    for _ in range(18):
        world.step(world.hold())
    payload = world.state.flow[:, PAYLOAD, 0]
    assert payload.max() == pytest.approx(WORK.batch / WORK.api)
    assert payload.min() < payload.max()


def test_a_shift_from_a_type_to_itself_is_refused() -> None:
    value = msgspec.to_builtins(still_scenario([TO_BATCH]))
    value["events"][0]["to_type"] = "api"
    with pytest.raises(InputError, match="expected from_type and to_type to differ"):
        yamlfile.decode(value, Scenario, Path("mine.yaml"))

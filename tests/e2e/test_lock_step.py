"""Services in processes on a real Kafka decide bit for bit as the in-process run.

The tests compare every number of every plan, budget, forecast and node request.
"""

import os
import time
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pytest

from models.compare import families
from models.control.tuned import tuned, tuned_parameters
from models.sim.config.physics import load_sim_cluster
from schemas.budget_granted import BudgetGranted
from schemas.capacity_requested import CapacityRequested
from schemas.demand_forecast import DemandForecast
from schemas.fields import Event, TickEvent
from schemas.rejected import Rejected
from schemas.scale_applied import ScaleApplied
from schemas.scale_planned import ScalePlanned
from schemas.topics import topic_of
from services.admin.reader import TopicReader
from services.devcluster import record
from services.devcluster.connect import options_for_home
from services.devcluster.launch import system
from services.devcluster.lifecycle import wait
from services.devcluster.request import Request
from tests.decision_helpers import (
    SCENARIO,
    decided_by_events,
    decided_in_process,
    first_difference,
    match_of,
)

SEED: Final = 3
SMALL: Final = (60, 36)
"""Apps and ticks: six minutes."""
FULL: Final = (1550, 180)
"""The example cluster for half an hour; HIRL_FULL_LOCK_STEP=1 asks for it."""
TICKS_PER_MINUTE: Final = 6
TIMEOUT_S: Final = 900.0
EACH_TICK: Final[tuple[type[TickEvent], ...]] = (ScalePlanned, ScaleApplied)
EACH_MINUTE: Final[tuple[type[TickEvent], ...]] = (DemandForecast, BudgetGranted, CapacityRequested)


class Recorded(NamedTuple):
    """Events of a run, read from the topics."""

    apps: int
    ticks: int
    events: list[TickEvent]
    dead_letters: list[Rejected]
    seconds: float
    """From the first event to the last one of the compared ticks."""


@pytest.fixture(scope="module")
def small(workplace: Path) -> Recorded:
    return record_run(*SMALL, workplace)


def record_run(apps: int, ticks: int, folder: Path) -> Recorded:
    """Run a system in lock-step until all decisions about `ticks` ticks are published."""
    root = folder / f"lock-step-{apps}"
    request = Request(scenario=SCENARIO, seed=SEED, apps=apps, lock_step=True)
    with system(request, root) as run:
        wait(root, ticks=1, timeout_s=TIMEOUT_S)
        with TopicReader(options_for_home(Path(run.kafka_home))) as reader:
            found = read_until(reader, all_decided(ticks, len(run.simulation.domains)))
        assert {one.restarts for one in record.running(root).statuses.values()} == {0}
    times = [at for event, at in found if isinstance(event, TickEvent) and event.tick < ticks]
    events = [event for event, _ in found if isinstance(event, TickEvent) and event.tick < ticks]
    letters = [event for event, _ in found if isinstance(event, Rejected)]
    return Recorded(apps, ticks, events, letters, max(times) - min(times))


Found = list[tuple[Event, float]]


def all_decided(ticks: int, domains: int) -> Callable[[Found], bool]:
    """Whether all decisions about the first ticks have been read."""
    minutes = len(range(0, ticks, TICKS_PER_MINUTE))
    wanted = dict.fromkeys(EACH_TICK, ticks * domains)
    wanted |= dict.fromkeys(EACH_MINUTE, minutes * domains)
    wanted[CapacityRequested] = minutes * len(load_sim_cluster().pool_names)

    def decided(found: Found) -> bool:
        counts = Counter(
            type(event) for event, _ in found if isinstance(event, TickEvent) and event.tick < ticks
        )
        return all(counts[kind] >= count for kind, count in wanted.items())

    return decided


def read_until(reader: TopicReader, enough: Callable[[Found], bool]) -> Found:
    kinds: tuple[type[Event], ...] = (*EACH_TICK, *EACH_MINUTE, Rejected)
    reader.seek([topic_of(kind).name for kind in kinds], from_beginning=True)
    found: Found = []
    deadline = time.monotonic() + TIMEOUT_S
    while not enough(found):
        assert time.monotonic() < deadline, f"{len(found)} events, and the last ticks are missing"
        for one in reader.poll():
            if one.event is not None:
                found.append((one.event, one.delivery.timestamp))
    return found


def difference(recorded: Recorded) -> str | None:
    """The first difference from the in-process run; None if there is none."""
    found = decided_by_events(list(recorded.events))
    for decided in islice(decided_in_process(match_of(recorded.apps, SEED)), recorded.ticks):
        differs = first_difference(decided.values, found.get(decided.tick, {}))
        if differs is not None:
            return f"tick {decided.tick}: {differs}"
    return None


def plant_one_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Change the last bit of `smoothing` in the in-process run."""
    # Kernels compute with float32: the last bit of a float64 would be rounded away.
    bit = float(np.nextafter(np.float32(tuned_parameters().smoothing), np.float32(1)))

    def planted(name: str) -> dict[str, Any]:
        return tuned(name) | {"smoothing": bit}

    monkeypatch.setattr(families, "tuned", planted)


def assert_sound(recorded: Recorded) -> None:
    plans = [event for event in recorded.events if isinstance(event, ScalePlanned)]
    assert max(plan.overruns for plan in plans) == 0
    assert recorded.dead_letters == []
    assert sum(plan.changes for plan in plans) > 0


def test_every_decision_over_kafka_equals_the_in_process_run_bit_for_bit(small: Recorded) -> None:
    assert difference(small) is None


def test_a_parameter_that_differs_in_its_last_bit_is_caught(
    small: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant_one_bit(monkeypatch)
    assert difference(small) is not None


def test_no_budget_is_overrun_and_nothing_is_rejected(small: Recorded) -> None:
    assert_sound(small)


@pytest.mark.skipif(
    os.environ.get("HIRL_FULL_LOCK_STEP") != "1",
    reason="minutes: HIRL_FULL_LOCK_STEP=1 asks for it",
)
def test_half_an_hour_of_the_example_cluster_equals_the_in_process_run_bit_for_bit(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = record_run(*FULL, workplace)
    with capsys.disabled():
        print(f"\n{recorded.apps} apps, {recorded.ticks} ticks: {recorded.seconds:.0f} s")  # noqa: T201
    assert difference(recorded) is None
    assert_sound(recorded)
    plant_one_bit(monkeypatch)
    assert difference(recorded) is not None

"""Services in processes on a real Kafka decide bit for bit as the in-process run.

The tests compare every number of every plan, budget, forecast and node request.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import pytest

from models.compare import families
from models.control.tuned import tuned, tuned_parameters
from models.registry.manifest import MANIFEST, Kind, read_manifest
from models.registry.store import Entry, FolderStore
from models.sim.config.physics import load_sim_cluster
from schemas.budget_granted import BudgetGranted
from schemas.capacity_requested import CapacityRequested
from schemas.demand_forecast import DemandForecast
from schemas.fields import Event, TickEvent
from schemas.model_promoted import ModelPromoted
from schemas.rejected import Rejected
from schemas.scale_applied import ScaleApplied
from schemas.scale_planned import ScalePlanned
from schemas.topics import topic_of
from services.admin.orders import publish
from services.admin.promotions import SOURCE
from services.admin.reader import TopicReader
from services.devcluster import record
from services.devcluster.connect import options_for_home
from services.devcluster.launch import system
from services.devcluster.lifecycle import wait
from services.devcluster.request import Request
from tests.decision_helpers import (
    CONTROLLER,
    SCENARIO,
    decided_by_events,
    decided_in_process,
    first_difference,
    match_of,
)
from tests.planted_models import (
    PUBLIC_PEM,
    commander_files,
    commander_network,
    soldier_files,
    soldier_network,
    trained_folder,
)

SEED: Final = 3
SMALL: Final = (60, 36)
"""Apps and ticks: six minutes."""
FULL: Final = (1550, 180)
"""The example cluster for half an hour; HIRL_FULL_LOCK_STEP=1 asks for it."""
TICKS_PER_MINUTE: Final = 6
COMMANDER: Final[Kind] = "commander-policy"
SOLDIER: Final[Kind] = "soldier-policy"
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


def record_run(
    apps: int,
    ticks: int,
    folder: Path,
    orders: Sequence[ModelPromoted] = (),
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Recorded:
    """Run a system in lock-step until all decisions about `ticks` ticks are published."""
    root = folder / f"lock-step-{apps}"
    request = Request(scenario=SCENARIO, seed=SEED, apps=apps, lock_step=True)
    with system(request, root, environment=dict(environment)) as run:
        if orders:
            # Services import for seconds, and read all orders before the first tick.
            publish(options_for_home(Path(run.kafka_home)), orders, SOURCE)
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


def difference(recorded: Recorded, controller: str = CONTROLLER) -> str | None:
    """The first difference from the in-process run; None if there is none."""
    found = decided_by_events(list(recorded.events))
    match = match_of(recorded.apps, SEED, controller=controller)
    for decided in islice(decided_in_process(match), recorded.ticks):
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


def test_with_policies_every_decision_over_kafka_equals_the_in_process_run_too(
    workplace: Path,
) -> None:
    networks = {
        COMMANDER: commander_network(headroom=1.05, comfort=0.8, pods=0.2),
        SOLDIER: soldier_network(slope=0.02),
    }
    files = {
        COMMANDER: commander_files(networks[COMMANDER]), SOLDIER: soldier_files(networks[SOLDIER])
    }  # fmt: skip
    key = workplace.resolve() / "release.pub"
    key.write_bytes(PUBLIC_PEM)
    store = FolderStore((workplace / "store").resolve())
    orders, names = list[ModelPromoted](), dict[str, str]()
    for model, kind in (("commander", COMMANDER), ("soldier", SOLDIER)):
        manifest = read_manifest(files[kind][MANIFEST], "planted")
        store.write(Entry(kind, manifest.version), files[kind])
        names[model] = manifest.name
        orders.append(
            ModelPromoted(
                # A return: at once, so that both decide from the first tick on.
                model=model, version=manifest.name, sha256=manifest.version, status="rolled-back",
                promoted_at="2026-11-19T00:00:00Z",
            )
        )  # fmt: skip
    environment = {"HIRL_MODEL_STORE": store.url, "HIRL_MODEL_KEYS": str(key)}
    recorded = record_run(*SMALL, workplace / "advised", orders, environment)
    folders = {
        model: trained_folder(workplace / "trained" / model, model, networks[kind])
        for model, kind in (("commander", COMMANDER), ("soldier", SOLDIER))
    }
    parts = "+".join(f"{model}={folder}" for model, folder in folders.items())
    assert difference(recorded, f"policy:calendar/{parts}") is None
    # The heuristic alone decides otherwise, so the policies did take part.
    assert difference(recorded) is not None
    for event in recorded.events:
        if isinstance(event, BudgetGranted):
            assert event.versions["commander"] == names["commander"]
        if isinstance(event, ScalePlanned):
            assert event.versions["soldier"] == names["soldier"]
    assert_sound(recorded)


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

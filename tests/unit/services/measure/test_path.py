"""The arithmetic of `hirl bench path` on timestamps, counters and sizes."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from models.control.tuned import tuned_parameters
from models.inputs.errors import InputError
from models.registry.manifest import MANIFEST, read_manifest
from models.registry.store import Entry, FolderStore
from models.sim.config.physics import load_sim_cluster
from schemas.codec import decode
from schemas.domain_observed import DomainObserved, Pods
from schemas.fields import TickEvent
from schemas.metrics_sampled import MetricsSampled
from schemas.scale_applied import ScaleApplied
from schemas.scale_planned import ScalePlanned
from services._kit.handler import Service
from services._kit.memory import MemoryBus
from services.aggregator.decide import AggregatorHandler
from services.cli.benchmarks import path as command
from services.cli.models.options import Place
from services.devcluster.request import Request
from services.measure import codec, path, samples, stamps, testbed
from services.measure.feeding import Pods as PodsToSample
from services.measure.stamps import Stamp
from tests.planted_models import PUBLIC_PEM, soldier_files, soldier_network

TIME = "2026-11-27T00:00:00Z"
EMPTY_PODS = Pods(**{name: [] for name in Pods.__struct_fields__})


def path_events(domain: str, tick: int, *times: float) -> list[Stamp]:
    """The events of a domain's tick, one per given time, in the order of the path."""
    own: dict[str, Any] = {"tick": tick, "time": TIME, "domain": domain}
    decided: dict[str, Any] = {"decision_id": "d", "epoch": -1, "apps": [], "reasons": []}
    numbers: dict[str, Any] = {"replicas": [], "cpu_request": [], "memory_request": []}
    events: list[TickEvent] = [
        MetricsSampled(**own, apps=[]),
        DomainObserved(
            **own,
            apps=[],
            pods=EMPTY_PODS,
            measured={},
            features={},
            load_pods=[],
            usual_load_pods=[],
        ),
        ScalePlanned(**own, **decided, **numbers, policy="p"),
        ScaleApplied(**own, **decided, **numbers, outcomes=[], replicas_before=[]),
    ]
    return [Stamp(event, at) for event, at in zip(events, times, strict=False)]


def test_a_tick_lasts_from_its_last_sample_to_its_last_change() -> None:
    found = path_events("a", 4, 10.0, 10.1, 10.2, 10.3) + path_events(
        "b", 4, 10.02, 10.08, 10.25, 10.27
    )
    tick = stamps.tick_times(found, domains=2)[4]
    assert tick.total_ms == pytest.approx(280)
    assert tick.hops_ms == pytest.approx((80, 150, 50))
    assert sum(tick.hops_ms) == pytest.approx(tick.total_ms)


def test_a_repeated_event_counts_at_its_last_time() -> None:
    found = path_events("a", 4, 10.0, 10.1, 10.2, 10.3) + path_events("a", 4, 10.05)
    assert stamps.tick_times(found, domains=1)[4].total_ms == pytest.approx(250)


def test_a_tick_that_a_domain_has_not_closed_does_not_count() -> None:
    found = path_events("a", 4, 1.0, 1.1, 1.2, 1.3) + path_events("b", 4, 1.0, 1.1, 1.2)
    assert stamps.tick_times(found, domains=2) == {}


def test_quantiles_are_those_of_the_values() -> None:
    found = stamps.quantiles([float(value) for value in range(101)])
    assert found == {"p50": 50.0, "p99": 99.0, "max": 100.0}


def test_quantiles_of_no_measurement_are_an_error() -> None:
    with pytest.raises(InputError, match="no tick completed the path"):
        stamps.quantiles([])


def test_hops_have_quantiles_of_their_own() -> None:
    found = stamps.tick_times(path_events("a", 1, 0.0, 1.0, 3.0, 6.0), domains=1)
    hops = stamps.by_hop(found)
    assert {name: one["p50"] for name, one in hops.items()} == pytest.approx(
        {"sample_to_frame": 1000, "frame_to_plan": 2000, "plan_to_applied": 3000}
    )


def test_usage_of_this_process_is_plausible() -> None:
    pids = {"me": os.getpid()}
    before = testbed.read_cpu(pids)
    assert sum(number * number for number in range(300_000)) > 0
    me = testbed.usage_since(before, pids)["me"]
    assert 0 <= me.cores < 64
    assert 10 < me.rss_mb < 10_000


def test_an_ended_process_is_reported_with_its_pid() -> None:
    with pytest.raises(InputError, match="process 999999999 ended"):
        testbed.read_cpu({"nobody": 999_999_999})


def test_available_memory_is_positive() -> None:
    assert testbed.available_mb() > 0


def test_the_largest_size_is_the_last_one_that_closed_in_time() -> None:
    rows = [{"apps": 1550, "ok": True}, {"apps": 15500, "ok": True}, {"apps": 31000, "ok": False}]
    assert path.largest(rows) == 15500
    assert path.largest(rows[2:]) == 0


def test_only_handled_records_of_samples_are_counted() -> None:
    text = (
        "# TYPE hirl_events counter\n"
        'hirl_events_total{topic="hirl.metrics-sampled.v1",outcome="handled"} 7.0\n'
        'hirl_events_total{topic="hirl.metrics-sampled.v1",outcome="rejected"} 2.0\n'
        'hirl_events_total{topic="hirl.app-declared.v1",outcome="learned"} 60.0\n'
    )
    assert samples.handled(text) == 7


@pytest.mark.parametrize("per_record", [1, 50])
def test_samples_of_a_tick_are_of_declared_apps_and_close_every_domain(per_record: int) -> None:
    pods = PodsToSample(Request(apps=20))
    records = pods.records(tick=5, samples=400, per_record=per_record)
    batches = [decode(one.topic, one.value, one.headers) for one in records]
    counted: list[str] = []
    ended: list[str] = []
    for batch in batches:
        assert isinstance(batch, MetricsSampled)
        assert batch.domain not in ended
        if batch.domain not in counted:
            assert batch.apps == pods.apps[batch.domain]
            assert len(batch.replicas) == len(batch.ready) == len(batch.apps)
            assert not batch.rps
            counted.append(batch.domain)
            continue
        assert len(batch.apps) == len(batch.pods) == len(batch.rps) == per_record
        assert set(batch.apps) <= set(pods.apps[batch.domain])
        if batch.final:
            ended.append(batch.domain)
    assert sorted(ended) == sorted(pods.apps)


def test_no_app_is_missing_while_samples_of_its_pods_are_fed() -> None:
    pods, bus = PodsToSample(Request(apps=20)), MemoryBus()
    bus.add(lambda: Service(AggregatorHandler(load_sim_cluster(), tuned_parameters(), None)))
    bus.publish(*pods.prologue)
    for tick in range(1, 7):
        for record in pods.records(tick, samples=2000, per_record=50):
            bus.put(record.topic, record.key, record.value, record.headers)
    bus.run()
    last = [frame for frame in bus.events(DomainObserved) if frame.tick == 6]
    assert {frame.domain for frame in last} == set(pods.apps)
    assert [frame.missing for frame in last] == [[]] * len(last)


def test_no_domain_closes_before_its_last_record_at_the_highest_rate() -> None:
    pods, bus = PodsToSample(Request(apps=20)), MemoryBus()
    bus.add(lambda: Service(AggregatorHandler(load_sim_cluster(), tuned_parameters(), None)))
    bus.publish(*pods.prologue)
    for record in pods.records(1, samples=pods.most, per_record=50):
        bus.put(record.topic, record.key, record.value, record.headers)
    bus.run()
    closed = {frame.domain: frame.closed_by for frame in bus.events(DomainObserved) if frame.tick}
    assert closed == dict.fromkeys(pods.apps, "final")


class FakeSystem:
    """A system and pods for a trial that sends nothing."""

    most = 150_000
    apps = prologue = options = ()


def test_the_rate_is_limited_by_the_pods_of_the_apps(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[float] = []
    fake: Any = FakeSystem()
    monkeypatch.setattr(samples, "Feeder", lambda _: SimpleNamespace(publish=lambda _: None))
    trial = samples._Trial(fake, fake, samples.BATCHED)

    def step(rate: float) -> samples.Step:
        tried.append(rate)
        return samples.Step(
            wanted_per_s=rate, sent_per_s=rate, left_at_end=0, kept_up=True, cores=1.0
        )

    monkeypatch.setattr(trial, "_step", step)
    monkeypatch.setattr(trial, "_drain", lambda: None)
    found = trial.run()
    assert tried == [10_000, 10_000, 15_000]
    assert (found.samples_per_s, found.apps_limited, found.feeder_limited) == (15_000, True, False)


def test_each_event_type_has_a_cost_and_its_readers() -> None:
    events = [stamp.event for stamp in path_events("a", 1, 1.0, 1.0, 1.0, 1.0)]
    found = {cost.event: cost for cost in codec.costs(events)}
    assert {name: cost.readers for name, cost in found.items()} == {
        "MetricsSampled": 1,
        "DomainObserved": 4,
        "ScalePlanned": 2,
        "ScaleApplied": 1,
    }
    assert all(cost.records == 1 and cost.kib > 0 for cost in found.values())
    frame = found["DomainObserved"]
    assert frame.tick_ms == pytest.approx(frame.encode_ms + 4 * frame.decode_ms)


def test_the_command_writes_what_it_measured_and_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("services.devcluster.kafka.provision.runtime", lambda *_: None)
    monkeypatch.setattr(command, "_measure", lambda *_: {"apps": 60})
    monkeypatch.setattr(command, "show", lambda *_: None)
    app = typer.Typer()
    app.command()(command.path)
    outcome = CliRunner().invoke(app, ["--apps", "60", "--json", "out.json"])
    assert outcome.exit_code == 0, outcome.output
    assert (tmp_path / "out.json").read_text() == '{\n  "apps": 60\n}\n'
    assert list((tmp_path / ".hirl").iterdir()) == []


def test_models_of_a_measurement_decide_at_once_from_the_callers_store(tmp_path: Path) -> None:
    (tmp_path / "release.pub").write_bytes(PUBLIC_PEM)
    files = soldier_files(soldier_network())
    version = read_manifest(files[MANIFEST], "planted").version
    FolderStore(tmp_path / "store").write(Entry("soldier-policy", version), files)
    place = Place(str(tmp_path / "store"), tmp_path / "release.pub")
    found = command._deciding(place, [version[:12]])
    (order,) = found.orders
    assert (order.model, order.sha256, order.status) == ("soldier", version, "rolled-back")
    assert found.environment["HIRL_MODEL_STORE"] == str(tmp_path / "store")
    with pytest.raises(InputError, match="--keys"):
        command._deciding(place._replace(keys=None), [version[:12]])

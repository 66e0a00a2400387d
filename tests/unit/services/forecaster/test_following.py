"""The forecaster follows promotions: shadow, canary, swap, and back in the tick of a fault."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from models.forecaster.learned.features import FEATURE_NAMES, network_features
from models.forecaster.learned.inputs import NetworkInputs, joined
from models.forecaster.learned.serving import Model, NetworkOutput
from models.registry.drift import Distribution, Reference
from models.registry.load import Artefact, verified
from models.registry.rollout import Rules
from schemas.demand_backfilled import DemandBackfilled
from schemas.demand_forecast import DemandForecast
from schemas.model_judged import ModelJudged
from schemas.model_promoted import ModelPromoted, RolloutRules
from services._kit.clock import ManualClock
from services._kit.handler import Service
from services._kit.memory import MemoryBus
from services._kit.models import LoadedModel, LoadModel
from services._kit.records import Delivery
from services._kit.state_codec import decode, encode
from services._kit.state_records import state_records
from services._kit.telemetry import Telemetry
from services.admin.frames import recorded_drift
from services.admin.minutes import MINUTES, remembered
from services.admin.reader import TopicReader
from services.forecaster.decide import ForecasterHandler, ForecasterState
from services.forecaster.metrics import Metrics
from services.forecaster.progress import no_minutes
from tests.planted_models import TRUST, features, forecaster_files
from tests.service_helpers import CLUSTER
from tests.unit.models.forecaster.fake_network import HIDDEN, FakeNetwork, model_of
from tests.unit.services.forecaster.forecaster_service_helpers import (
    GRACE_S,
    backfill,
    declare_apps,
    play,
)

RULES = Rules(shadow_decisions=2, stage_decisions=1)
TICKS = 6  # of a minute
NEW, OTHER = "a" * 64, "b" * 64


class Shelf:
    """An executor with models that are there, or not."""

    def __init__(self, **models: Any) -> None:
        self.models = models
        self.asked: list[str] = []
        self.references: dict[str, Reference] = {}

    async def carry_out(self, request: LoadModel) -> LoadedModel:
        self.asked.append(request.ref.name)
        network = self.models.get(request.ref.sha256[0])
        if network is None:
            return LoadedModel(request.ref, None, "is not signed")
        reference = self.references.get(request.ref.sha256[0])
        model = Model(request.ref.name, "2026-01-01T00:00:00Z", network, None, reference)
        return LoadedModel(request.ref, model)


class Slow(FakeNetwork):
    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock, self.most = clock, 1000

    def predict(self, inputs: NetworkInputs) -> NetworkOutput:
        self.most -= 1
        if self.most >= 0:
            self._clock.advance(0.6)
        return super().predict(inputs)


class Broken(FakeNetwork):
    """Answers with one number for everything."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self._value = value

    def predict(self, inputs: NetworkInputs) -> NetworkOutput:
        output = super().predict(inputs)
        return output._replace(values=np.full_like(output.values, self._value))


Put = Callable[..., tuple[MemoryBus, Shelf]]


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> Put:
    shipped = FakeNetwork()
    monkeypatch.setattr("services.forecaster.builder.open_network", lambda _: model_of(shipped))

    def made(model: str = "tft", rules: Rules = RULES, **models: Any) -> tuple[MemoryBus, Shelf]:
        shelf, bus = Shelf(**models), MemoryBus(ManualClock(1000.0))

        def build() -> Service[Any]:
            handler = ForecasterHandler(CLUSTER, model, 120, GRACE_S, rules=rules)
            return Service(handler, shelf)

        bus.add(build)
        declare_apps(bus)
        backfill(bus)
        play(bus, 0, TICKS)
        return bus, shelf

    return made


def promote(bus: MemoryBus, sha256: str = NEW, number: int = 0, **more: Any) -> None:
    bus.publish(
        ModelPromoted(
            **{
                "model": "forecaster",
                "version": f"tft/{sha256[:1]}",
                "sha256": sha256,
                "promoted_at": f"2026-11-20T14:00:{number:02}Z",
            }
            | more
        )
    )
    bus.run()


def minutes(bus: MemoryBus, first: int, last: int) -> None:
    play(bus, (first - 1) * TICKS + 1, last * TICKS)


def restart(bus: MemoryBus) -> None:
    """As after SIGKILL, with the last inputs delivered again."""
    bus.kill("forecaster", redeliver=3)
    bus.start("forecaster")


def phases(bus: MemoryBus) -> list[str]:
    return [f"{e.phase} {e.share:g}" if e.share else e.phase for e in bus.events(ModelJudged)]


def models_at(bus: MemoryBus, minute: int) -> list[str]:
    return [e.model for e in bus.events(DemandForecast) if e.tick == minute * TICKS]


def test_a_good_network_is_swapped_in_by_stages_and_forecasts_name_it(put: Put) -> None:
    bus, _ = put(a=FakeNetwork())
    promote(bus)
    minutes(bus, 2, 12)
    assert phases(bus) == [
        "loading", "shadow", "canary 0.05", "canary 0.3", "canary 1", "serving 1"
    ]  # fmt: skip
    domains = len(CLUSTER.domain_names)
    named = [models_at(bus, minute).count("tft/a") for minute in range(7, 13)]
    # Outcomes are five minutes away. Two of them in shadow, one with one domain, one with two of
    # five, then all.
    assert named == [0, 0, 1, 2, domains, domains]
    assert set(models_at(bus, 12)) == {"tft/a"}
    assert bus.dead_letters == []


FAULTS: dict[str, tuple[Callable[[MemoryBus], FakeNetwork], str]] = {
    "always NaN": (lambda _: Broken(np.nan), "no number"),
    "always huge": (lambda _: Broken(1e30), "over 50 times"),
    "always inf": (lambda _: Broken(np.inf), "no number"),
    "negative": (lambda _: Broken(-1.0), "negative"),
    "slow": (lambda bus: Slow(bus.clock), "took 0.600 s"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("stage", ["shadow", "canary"])
def test_an_answer_that_cannot_be_used_is_never_used_and_ends_the_rollout_in_its_tick(
    put: Put, fault: str, stage: str
) -> None:
    make, reason = FAULTS[fault]
    bus, shelf = put(a=FakeNetwork())
    promote(bus)
    last = 2
    if stage == "canary":
        minutes(bus, 2, 9)
        last = 10
    # The network goes bad: the process has it open, so it is replaced inside.
    bad = make(bus)
    shelf.models["a"].predict = bad.predict
    minutes(bus, last, last + 2)
    (event,) = [e for e in bus.events(ModelJudged) if e.phase == "rolled-back"]
    assert reason in event.reason
    assert event.tick == last * TICKS
    assert event.locked_until_tick == last * TICKS + RULES.lock_ticks
    assert models_at(bus, last) == ["tft/fake"] * len(CLUSTER.domain_names)
    for forecast in bus.events(DemandForecast):
        assert np.isfinite(forecast.rps).all()
        assert np.max(forecast.rps) < 1e6


def test_a_network_that_forecasts_worse_than_the_incumbent_is_taken_back(put: Put) -> None:
    bus, _ = put(a=FakeNetwork(factor=1.5))
    promote(bus)
    minutes(bus, 2, 10)
    assert phases(bus)[-1] == "rolled-back"
    event = bus.events(ModelJudged)[-1]
    assert "above the incumbent's" in event.reason
    assert event.evidence["cost_candidate"] > event.evidence["cost_incumbent"] > 0
    assert not any(e.model == "tft/a" for e in bus.events(DemandForecast))


def test_what_cannot_be_loaded_is_refused_and_the_shipped_one_goes_on(put: Put) -> None:
    bus, _ = put()
    promote(bus)
    minutes(bus, 2, 3)
    assert phases(bus) == ["loading", "refused"]
    assert bus.events(ModelJudged)[-1].reason == "is not signed"
    assert set(models_at(bus, 3)) == {"tft/fake"}


def test_a_restart_in_any_stage_continues_in_that_stage_with_the_same_names(put: Put) -> None:
    without, _ = put(a=FakeNetwork())
    promote(without)
    minutes(without, 2, 12)
    bus, shelf = put(a=FakeNetwork())
    promote(bus)
    for minute in range(2, 13):
        restart(bus)
        minutes(bus, minute, minute)
    assert phases(bus) == phases(without)
    found = [[models_at(one, minute) for minute in range(1, 13)] for one in (bus, without)]
    assert found[0] == found[1]
    # It was opened again by every process.
    assert len(shelf.asked) >= 11


def test_a_restart_without_the_store_serves_what_ships_and_says_so(put: Put) -> None:
    bus, shelf = put(a=FakeNetwork())
    promote(bus)
    minutes(bus, 2, 12)
    shelf.models.clear()
    restart(bus)
    minutes(bus, 13, 13)
    assert phases(bus)[-1] == "heuristic"
    assert set(models_at(bus, 13)) == {"tft/fake"}
    (note,) = {e.review_reason for e in bus.events(DemandForecast) if e.tick == 13 * TICKS}
    assert note == "tft/a: is not signed"
    shelf.models["a"] = FakeNetwork()
    minutes(bus, 14, 24)
    assert set(models_at(bus, 24)) == {"tft/a"}


def test_an_operator_rolls_back_at_once_and_the_next_forecast_shows_it(put: Put) -> None:
    bus, _ = put(a=FakeNetwork())
    promote(bus)
    minutes(bus, 2, 12)
    promote(bus, number=1, status="rolled-back", version="shipped", sha256="")
    minutes(bus, 13, 13)
    assert set(models_at(bus, 13)) == {"tft/fake"}
    assert phases(bus)[-1] == "rolled-back"


def test_a_promoted_network_that_goes_bad_later_gives_way_to_the_one_before(put: Put) -> None:
    bus, shelf = put(a=FakeNetwork())
    promote(bus)
    minutes(bus, 2, 12)
    shelf.models["a"].fails = True
    minutes(bus, 13, 14)
    assert phases(bus)[-1] == "rolled-back"
    assert bus.events(ModelJudged)[-1].tick == 13 * TICKS
    assert set(models_at(bus, 13)) == {"tft/fake"}
    assert set(models_at(bus, 14)) == {"tft/fake"}


def test_a_promoted_network_that_becomes_slow_gives_way_and_one_stall_is_no_evidence(
    put: Put,
) -> None:
    bus, shelf = put(a=FakeNetwork())
    promote(bus)
    minutes(bus, 2, 12)
    slow = Slow(bus.clock)  # type: ignore[arg-type]
    slow.most = 1
    shelf.models["a"].predict = slow.predict
    minutes(bus, 13, 13)
    assert set(models_at(bus, 13)) == {"tft/a"}
    slow.most = 1000
    minutes(bus, 14, 14)
    assert set(models_at(bus, 14)) == {"tft/fake"}
    assert "took 0.600 s" in bus.events(ModelJudged)[-1].reason


class Wide(FakeNetwork):
    """With a larger hidden state than the shipped one."""

    def predict(self, inputs: NetworkInputs) -> NetworkOutput:
        output = super().predict(inputs)
        return output._replace(hidden=np.ones((*output.hidden.shape[:2], HIDDEN + 3)))


class Shapeless(FakeNetwork):
    """Without one of the horizons."""

    def predict(self, inputs: NetworkInputs) -> NetworkOutput:
        output = super().predict(inputs)
        return output._replace(values=output.values[:, 1:])


def test_a_network_with_another_hidden_state_is_served_and_one_of_another_shape_taken_back(
    put: Put,
) -> None:
    bus, _ = put(a=Wide())
    promote(bus)
    minutes(bus, 2, 12)
    assert set(models_at(bus, 12)) == {"tft/a"}
    bus, _ = put(a=Shapeless())
    promote(bus)
    minutes(bus, 2, 3)
    assert phases(bus) == ["loading", "shadow", "rolled-back"]
    assert "expected the shape" in bus.events(ModelJudged)[-1].reason
    assert set(models_at(bus, 3)) == {"tft/fake"}


def test_a_candidate_without_any_outcome_is_taken_back_in_the_end(put: Put) -> None:
    rules = Rules(shadow_decisions=2, stage_decisions=1, patience_decisions=4)
    bus, _ = put(rules=rules, a=FakeNetwork())
    promote(bus)
    # Five minutes pass before the first outcome: with less patience than that there is none.
    minutes(bus, 2, 6)
    assert phases(bus) == ["loading", "shadow", "rolled-back"]
    assert "outcomes of 5 decisions are not known" in bus.events(ModelJudged)[-1].reason


def test_a_forecaster_with_a_rule_says_that_it_serves_no_network(put: Put) -> None:
    bus, shelf = put(model="calendar", a=FakeNetwork())
    promote(bus)
    minutes(bus, 2, 3)
    assert phases(bus) == ["refused"]
    assert "HIRL_FORECASTER_MODEL is calendar" in bus.events(ModelJudged)[0].reason
    assert shelf.asked == []


def test_models_of_other_services_are_left_alone(put: Put) -> None:
    bus, shelf = put(a=FakeNetwork())
    promote(bus, model="commander")
    minutes(bus, 2, 3)
    assert phases(bus) == []
    assert shelf.asked == []


def test_a_digest_that_could_lead_elsewhere_is_a_dead_letter(put: Put) -> None:
    bus, shelf = put(a=FakeNetwork())
    promote(bus, sha256="../../etc/passwd")
    minutes(bus, 2, 3)
    assert [letter.error for letter in bus.dead_letters] == ["bad-model"]
    assert shelf.asked == []


def reference(version: str, spread: float) -> Reference:
    """Of a training in which all features were near 40; hours of it differed by `spread`."""
    far = Distribution(values=[39.0, 40.0, 41.0], shares=[0.0, 0.5, 1.0], spread=spread)
    return Reference(version, dict.fromkeys(FEATURE_NAMES, far))


WATCHED = RolloutRules(drift_minutes=3)


def test_a_network_whose_features_are_not_those_of_training_is_taken_back_after_a_window(
    put: Put,
) -> None:
    bus, shelf = put(a=FakeNetwork())
    shelf.references["a"] = reference(NEW, 0.0)
    promote(bus, rules=WATCHED)
    minutes(bus, 2, 3)
    assert phases(bus)[-1] == "shadow"
    restart(bus)
    minutes(bus, 4, 5)
    event = bus.events(ModelJudged)[-1]
    assert (event.phase, event.tick) == ("rolled-back", 4 * TICKS)
    assert "is another than in training" in event.reason
    assert set(models_at(bus, 5)) == {"tft/fake"}


def test_a_network_that_serves_is_watched_while_another_one_is_in_shadow(put: Put) -> None:
    bus, shelf = put(a=FakeNetwork(), b=FakeNetwork())
    shelf.references |= {"a": reference(NEW, 0.25), "b": reference(OTHER, 0.5)}
    rules = RolloutRules(drift_minutes=3, most_drift=1.0)
    promote(bus, rules=rules, status="rolled-back")
    minutes(bus, 2, 5)
    assert {e.tick for e in bus.events(DemandForecast) if not e.drift} == {0, 6, 12, 18}
    promote(bus, OTHER, 1, rules=rules, hold_at="shadow")
    minutes(bus, 6, 9)
    assert phases(bus)[-1] == "shadow"
    forecast = bus.events(DemandForecast)[-1]
    assert forecast.drift == dict.fromkeys(FEATURE_NAMES, 0.75)
    telemetry = Telemetry("forecaster", ManualClock(0.0))
    Metrics(telemetry)(forecast)
    labels = {"agent": "forecaster", "feature": "past.level"}
    assert telemetry.registry.get_sample_value("hirl_model_drift_ratio", labels) == 0.75
    promote(bus, OTHER, 2, hold_at="shadow", rules=RolloutRules(drift_minutes=3, most_drift=0.6))
    minutes(bus, 10, 11)
    event = bus.events(ModelJudged)[-1]
    assert (event.phase, event.version) == ("rolled-back", "tft/a")
    assert event.reason.endswith("tft/b is withdrawn with it")
    assert set(models_at(bus, 11)) == {"tft/fake"}


def test_what_ships_and_what_training_left_nothing_of_is_not_watched(put: Put) -> None:
    bus, _ = put(a=FakeNetwork())
    promote(bus, rules=WATCHED)
    minutes(bus, 2, 14)
    assert phases(bus)[-1] == "serving 1"
    assert not any(e.drift for e in bus.events(DemandForecast))


def test_the_gate_sees_what_the_service_saw(put: Put) -> None:
    network = Noting()
    bus, _ = put(a=network)
    promote(bus, status="rolled-back")
    minutes(bus, 2, MINUTES + 2)
    state = forecaster_state(bus)
    histories = bus.events(DemandBackfilled)
    newest = bus.events(DemandForecast)[-1]
    found = remembered(state, histories, newest, CLUSTER)
    assert found is not None
    seen = network_features(joined(network.noted[-MINUTES:]))
    for name, values in found.items():
        by_domain = values.reshape(len(CLUSTER.domain_names), MINUTES, -1)
        expected = seen[name].reshape(MINUTES, len(CLUSTER.domain_names), -1).swapaxes(0, 1)
        np.testing.assert_allclose(by_domain, expected, atol=1e-5, err_msg=name)
    assert remembered(replace(state, domains=("other",)), histories, newest, CLUSTER) is None
    nothing = replace(state, recent=no_minutes(len(CLUSTER.domain_names)))
    assert remembered(nothing, [], newest, CLUSTER) is None


class Recorded:
    """A reader of topics that a running forecaster left behind."""

    def __init__(self, bus: MemoryBus) -> None:
        self._bus = bus

    def newest_records(self, kind: type[Any], _: int) -> list[Any]:
        return [SimpleNamespace(event=event) for event in self._bus.events(kind)[-1:]]

    def read_all(self, kind: type[Any]) -> list[Any]:
        return self._bus.events(kind)

    def read_to_end(self, topics: list[str]) -> list[Any]:
        assert topics == ["hirl.state-forecaster.v1"]
        saved = state_records("cluster", encode(forecaster_state(self._bus)))
        return [
            SimpleNamespace(
                delivery=Delivery("", 0, 0, key.encode(), record.value, record.headers, 0.0)
            )
            for key, record in saved.items()
        ]


def test_the_gate_judges_a_forecaster_by_what_the_running_one_remembers(put: Put) -> None:
    bus, _ = put()
    minutes(bus, 2, 5)
    for spread, expected in ((0.25, 0.75), (1.0, 0.0)):
        files = forecaster_files(extra=features("forecaster", spread=spread))
        found = recorded_drift(cast("TopicReader", Recorded(bus)), CLUSTER, verified_of(files))
        assert found == dict.fromkeys(FEATURE_NAMES, expected)
    unknown = verified_of(forecaster_files())
    assert recorded_drift(cast("TopicReader", Recorded(bus)), CLUSTER, unknown) is None


def verified_of(files: dict[str, bytes]) -> Artefact:
    return verified(files, TRUST, "planted")


class Noting(FakeNetwork):
    """Notes what it is asked when it forecasts."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[NetworkInputs] = []

    def predict(self, inputs: NetworkInputs) -> NetworkOutput:
        if inputs.scale.size == len(CLUSTER.domain_names):
            self.noted.append(inputs)
        return super().predict(inputs)


def forecaster_state(bus: MemoryBus) -> ForecasterState:
    """The saved state, as the gate reads it."""
    process: Any = bus._processes["forecaster"]
    state = process.engine._store.get("cluster")
    assert isinstance(state, ForecasterState)
    return decode(ForecasterState, encode(state))

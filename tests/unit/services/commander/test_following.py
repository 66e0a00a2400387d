"""The Commander follows promoted policies, and no answer of one breaks a budget."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from models.control.residual import Residual, neutral
from models.control.tuned import tuned_parameters
from models.features.pools import PoolReadings
from models.policies.contract import OUTPUTS
from models.policies.features import feature_names
from models.registry.manifest import MANIFEST, MODEL, read_manifest
from models.registry.rollout import Rules
from models.registry.store import Entry, FolderStore
from schemas.breaker_changed import BreakerChanged
from schemas.budget_granted import BudgetGranted
from schemas.model_judged import ModelJudged
from schemas.model_promoted import ModelPromoted, ObjectiveWeights, RolloutRules
from schemas.transition_recorded import TransitionRecorded
from services._kit.clock import ManualClock
from services._kit.following import Deciding
from services._kit.handler import Service
from services._kit.inventory import DeclaredApps, pool_records
from services._kit.memory import MemoryBus
from services._kit.models import ModelLoader
from services._kit.telemetry import Telemetry
from services.commander.advice import Policy, advise, open_policy, over_cap
from services.commander.decide import CommanderHandler
from services.commander.metrics import Metrics
from tests.planted_models import (
    OTHER_KEY,
    TRUST,
    commander_files,
    commander_network,
    features,
    files_of,
    linear_policy,
    manifest_of,
)
from tests.service_helpers import CLUSTER, planned, pools, time_of
from tests.unit.services.commander.commander_helpers import forecast

DOMAINS = CLUSTER.domain_names
RULES = Rules(shadow_decisions=2, stage_decisions=1)
INVENTORY = DeclaredApps(CLUSTER).inventory(())
# Comfort decides budgets only where no cushion is left out of it.
PARAMETERS = tuned_parameters()._replace(cushion_p0=0.0, cushion_p1=0.0)
GRACE_S = 2.0


class Place:
    """A bus with a Commander, and a store."""

    def __init__(self, folder: Path) -> None:
        self.store = FolderStore(folder)
        self.bus = MemoryBus(ManualClock(1000.0))
        self.bus.add(self._service)
        self._orders = 0

    def _service(self) -> Service[Any]:
        loader = ModelLoader(
            "commander-policy", self.store, TRUST, lambda one: open_policy(one, INVENTORY)
        )
        return Service(CommanderHandler(CLUSTER, PARAMETERS, GRACE_S, rules=RULES), loader)

    def promote(self, files: dict[str, bytes], **more: Any) -> str:
        """Put an artefact into the store and promote it; returns its name."""
        manifest = read_manifest(files[MANIFEST], "x")
        self.store.write(Entry("commander-policy", manifest.version), files)
        self._orders += 1
        fields = {
            "model": "commander",
            "version": manifest.name,
            "sha256": manifest.version,
            "promoted_at": f"2026-11-20T14:00:{self._orders:02}Z",
        }
        self.bus.publish(ModelPromoted(**(fields | more)))
        self.bus.run()
        return manifest.name

    def minutes(self, first: int, last: int, at_risk: int = 0) -> None:
        for minute in range(first, last + 1):
            self.bus.advance(60.0)
            for domain in DOMAINS:
                self.bus.publish(
                    planned(domain, minute * 6, at_risk=at_risk),
                    forecast(domain, minute * 6, growth=1.2),
                )
            self.bus.publish(*pools(minute * 6))
            self.bus.run()

    def restart(self) -> None:
        self.bus.kill("commander", redeliver=3)
        self.bus.start("commander")

    @property
    def phases(self) -> list[str]:
        events = self.bus.events(ModelJudged)
        return [f"{e.phase} {e.share:g}" if e.share else e.phase for e in events]

    def budgets(self, minute: int) -> list[BudgetGranted]:
        return [e for e in self.bus.events(BudgetGranted) if e.tick == minute * 6]

    def advised(self, minute: int) -> list[str]:
        return [e.versions.get("commander", "") for e in self.budgets(minute)]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_policy_is_swapped_in_by_stages_and_budgets_name_it(place: Place) -> None:
    place.minutes(1, 1)
    name = place.promote(commander_files(commander_network(headroom=0.99)))
    place.minutes(2, 8)
    assert place.phases == [
        "loading", "shadow", "canary 0.05", "canary 0.3", "canary 1", "serving 1"
    ]  # fmt: skip
    counts = [place.advised(minute).count(name) for minute in range(1, 9)]
    assert counts == [0, 0, 0, 1, 2, 5, 5, 5]
    assert place.bus.dead_letters == []


def comparable(event: BudgetGranted) -> BudgetGranted:
    return msgspec.structs.replace(event, versions={})


def test_a_neutral_policy_grants_the_heuristics_budgets_bit_for_bit(tmp_path: Path) -> None:
    alone, advised = Place(tmp_path / "a"), Place(tmp_path / "b")
    for place in (alone, advised):
        place.minutes(1, 1)
    name = advised.promote(commander_files(commander_network()))
    for place in (alone, advised):
        place.minutes(2, 9)
    assert advised.advised(9) == [name] * len(DOMAINS)
    found = [
        [comparable(one) for one in place.bus.events(BudgetGranted)] for place in (alone, advised)
    ]
    assert found[0] == found[1]


def test_budgets_replay_bit_for_bit_with_the_version_that_they_carry(tmp_path: Path) -> None:
    place, replay, alone = (Place(tmp_path / name) for name in "abc")
    place.promote(commander_files(commander_network(headroom=1.1)), status="rolled-back")
    place.minutes(1, 5)
    # All that is known of the decisions is what they carry.
    name = place.budgets(5)[0].versions["commander"]
    for entry in place.store.entries():
        stored = dict(place.store.read(entry))
        if read_manifest(stored[MANIFEST], "x").name == name:
            replay.promote(stored, status="rolled-back")
    for one in (replay, alone):
        one.minutes(1, 5)
    for minute in range(1, 6):
        assert place.budgets(minute) == replay.budgets(minute)
    headroom = [[b.headroom for b in one.budgets(5)] for one in (place, alone)]
    assert headroom[0] != headroom[1]


def test_a_restart_in_any_stage_continues_in_it_and_decides_the_same(tmp_path: Path) -> None:
    files = commander_files(commander_network(headroom=0.99))
    steady, killed = Place(tmp_path / "a"), Place(tmp_path / "b")
    for place in (steady, killed):
        place.minutes(1, 1)
        place.promote(files)
    for minute in range(2, 10):
        steady.minutes(minute, minute)
        killed.restart()
        killed.minutes(minute, minute)
    assert killed.phases == steady.phases
    assert killed.bus.events(BudgetGranted) == steady.bus.events(BudgetGranted)


def test_transitions_say_what_the_heuristic_would_have_done(place: Place) -> None:
    place.minutes(1, 1)
    place.promote(commander_files(commander_network(comfort=0.67)))
    place.minutes(2, 10)
    found = {e.tick: e.counterfactual for e in place.bus.events(TransitionRecorded)}
    # Nothing was applied in shadow; the transition of a minute is recorded a minute later.
    assert found[12] == found[18] == {}
    assert found[54]["differs"] > 0
    assert found[54]["heuristic_cost"] > 0
    metrics = Metrics(Telemetry("commander", ManualClock(0.0)))
    for event in place.bus.events(TransitionRecorded):
        metrics(event)
    read = metrics._rollouts._beside["differs_ratio"].labels("commander")
    assert read._value.get() == found[54]["differs"]
    assert metrics._spend._value.get() > 0
    assert metrics._cap._value.get() == CLUSTER.spend_cap_per_hour


@pytest.mark.parametrize("stage", ["canary", "serving"])
def test_a_policy_is_taken_back_before_the_mean_cost_reaches_the_spend_cap(
    place: Place, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    place.minutes(1, 11)
    name = place.promote(commander_files(commander_network(headroom=0.99)))
    # One decision is advised in a canary by then, or all.
    last = 14 if stage == "canary" else 17
    place.minutes(12, last)
    assert place.phases[-1].startswith(stage)
    assert name in place.advised(last)
    state: Any = place.bus._processes["commander"].engine._store.get("cluster")  # type: ignore[union-attr]
    mean = sum(state.spend_per_hour) / len(state.spend_per_hour)
    cap = mean / RULES.most_spend - 1e-6
    monkeypatch.setattr(
        "services.commander.decide.over_cap", lambda spent, _, most: over_cap(spent, cap, most)
    )
    place.minutes(last + 1, last + 2)
    assert place.phases[-1] == "rolled-back"
    assert "of the spend cap" in place.bus.events(ModelJudged)[-1].reason
    assert place.advised(last + 2) == [""] * len(DOMAINS)


def test_a_policy_near_the_spend_cap_is_taken_back_though_another_one_waits_in_shadow(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.minutes(1, 11)
    name = place.promote(commander_files(commander_network(headroom=0.99)))
    place.minutes(12, 17)
    other = place.promote(commander_files(commander_network(headroom=0.98)), hold_at="shadow")
    place.minutes(18, 19)
    assert place.phases[-1] == "shadow"
    assert place.advised(19) == [name] * len(DOMAINS)
    monkeypatch.setattr("services.commander.decide.over_cap", lambda *_: "near the spend cap")
    place.minutes(20, 21)
    event = place.bus.events(ModelJudged)[-1]
    assert (event.phase, event.version) == ("rolled-back", name)
    assert event.reason == f"near the spend cap; {other} is withdrawn with it"
    assert place.advised(21) == [""] * len(DOMAINS)


def test_the_mean_cost_is_judged_over_minutes_and_not_by_one() -> None:
    assert over_cap([1000.0] * 9, 1000.0, 0.96) == ""
    assert over_cap([900.0] * 30 + [1500.0], 1000.0, 0.96) == ""
    assert over_cap([959.0] * 60, 1000.0, 0.96) == ""
    assert "96.1% of the spend cap" in over_cap([961.0] * 60, 1000.0, 0.96)


BAD: dict[str, tuple[Callable[[], bytes], str]] = {
    "always NaN": (lambda: commander_network(bad="nan"), "headroom: no number"),
    "always inf": (lambda: commander_network(bad="inf"), "headroom: no number"),
    "1e30": (lambda: commander_network(headroom=1e30), "headroom: 1e+30 is above 1.25"),
    "negative": (lambda: commander_network(urgency=-1.0), "urgency: -1 is below 0.25"),
}


@pytest.mark.parametrize("fault", BAD)
def test_an_answer_out_of_range_is_never_used_and_ends_the_rollout_in_its_tick(
    place: Place, fault: str
) -> None:
    make, reason = BAD[fault]
    place.minutes(1, 1)
    place.promote(commander_files(make()))
    place.minutes(2, 4)
    event = place.bus.events(ModelJudged)[-1]
    assert (event.phase, event.tick) == ("rolled-back", 12)
    assert reason in event.reason
    assert place.advised(2) == [""] * len(DOMAINS)


def test_a_policy_that_always_wants_the_most_is_taken_back_in_shadow(place: Place) -> None:
    place.minutes(1, 1)
    most = commander_network(headroom=1.25, urgency=4.0, comfort=1.5, pods=1.0, nodes=1.0, spare=3)
    place.promote(commander_files(most))
    place.minutes(2, 6)
    event = place.bus.events(ModelJudged)[-1]
    assert event.phase == "rolled-back"
    assert "above the incumbent's" in event.reason
    assert not any(any(place.advised(minute)) for minute in range(1, 7))


def files_with(spread: float) -> dict[str, bytes]:
    extra = features("commander-policy", spread=spread)
    return commander_files(commander_network(headroom=0.99), extra=extra)


def test_a_policy_whose_features_are_not_those_of_training_is_taken_back_after_a_window(
    place: Place,
) -> None:
    place.minutes(1, 1)
    place.promote(files_with(spread=0.0), rules=RolloutRules(drift_minutes=4))
    place.minutes(2, 4)
    # Three minutes are no window yet: it went on meanwhile.
    assert place.phases[-1].startswith("canary")
    place.restart()
    place.minutes(5, 7)
    event = place.bus.events(ModelJudged)[-1]
    assert (event.phase, event.tick) == ("rolled-back", 5 * 6)
    assert "is another than in training" in event.reason
    assert place.advised(7) == [""] * len(DOMAINS)


def test_a_serving_policy_is_taken_back_when_an_operator_allows_less_drift(place: Place) -> None:
    """And what it was compared with is recorded for each feature, and shown."""
    place.minutes(1, 1)
    rules = RolloutRules(drift_minutes=2, most_drift=1.0)
    name = place.promote(files_with(spread=0.25), rules=rules)
    place.minutes(2, 9)
    assert place.phases[-1] == "serving 1"
    recorded = place.bus.events(TransitionRecorded)[-1]
    assert recorded.drift.keys() == {*feature_names("commander-policy")}
    assert max(recorded.drift.values()) == 0.75
    telemetry = Telemetry("commander", ManualClock(0.0))
    metrics = Metrics(telemetry)
    metrics(recorded)
    labels = {"agent": "commander", "feature": "domain.rps"}
    value = telemetry.registry.get_sample_value
    assert value("hirl_model_drift_ratio", labels) == recorded.drift["domain.rps"]
    metrics(msgspec.structs.replace(recorded, drift={}))
    assert value("hirl_model_drift_ratio", labels) is None
    (order,) = place.bus.events(ModelPromoted)
    rules = msgspec.structs.replace(rules, most_drift=0.5)
    place.bus.publish(
        msgspec.structs.replace(order, rules=rules, promoted_at="2026-11-20T15:00:00Z")
    )
    place.minutes(10, 11)
    event = place.bus.events(ModelJudged)[-1]
    assert (event.phase, event.version) == ("rolled-back", name)
    assert "over 0.5" in event.reason


def test_a_policy_that_decides_is_watched_for_drift_while_another_one_is_in_shadow(
    place: Place,
) -> None:
    place.minutes(1, 1)
    rules = RolloutRules(drift_minutes=4, most_drift=1.0)
    name = place.promote(files_with(spread=0.25), rules=rules)
    place.minutes(2, 9)
    assert place.phases[-1] == "serving 1"
    other = commander_files(
        commander_network(headroom=0.98), extra=features("commander-policy", spread=1.0)
    )
    rules = msgspec.structs.replace(rules, most_drift=0.5)
    candidate = place.promote(other, hold_at="shadow", rules=rules)
    place.minutes(10, 11)
    # It was watched before: no other window begins with the candidate's.
    event = place.bus.events(ModelJudged)[-1]
    assert (event.phase, event.version, event.tick) == ("rolled-back", name, 10 * 6)
    assert "is another than in training" in event.reason
    assert event.reason.endswith(f"{candidate} is withdrawn with it")
    assert place.advised(11) == [""] * len(DOMAINS)


def test_drift_of_what_decides_is_shown_while_another_one_is_in_shadow(place: Place) -> None:
    place.minutes(1, 1)
    rules = RolloutRules(drift_minutes=2, most_drift=1.0)
    for spread, headroom in ((0.25, 0.99), (0.5, 0.98)):
        extra = features("commander-policy", spread=spread)
        files = commander_files(commander_network(headroom=headroom), extra=extra)
        place.promote(files, hold_at="serving" if spread < 0.5 else "shadow", rules=rules)
        place.minutes(*((2, 9) if spread < 0.5 else (10, 14)))
    assert place.phases[-1] == "shadow"
    assert max(place.bus.events(TransitionRecorded)[-1].drift.values()) == 0.75


def test_weights_of_the_registry_count_in_rewards_and_comparisons(place: Place) -> None:
    place.minutes(1, 3)
    name = place.promote(commander_files(commander_network(headroom=0.9)))
    place.minutes(4, 12, at_risk=1)
    assert name in place.advised(12)
    (order,) = place.bus.events(ModelPromoted)
    heavier = RolloutRules(weights=ObjectiveWeights(p0=1000.0, p1=1000.0, p2=1000.0, p3=1000.0))
    place.bus.publish(
        msgspec.structs.replace(order, rules=heavier, promoted_at="2026-11-20T15:00:00Z")
    )
    place.minutes(13, 16, at_risk=1)
    recorded = {e.tick // 6: e for e in place.bus.events(TransitionRecorded)}
    nodes = recorded[1].reward
    # An app of each domain is at risk.
    own = sum(CLUSTER.priority_weights[one.priority] for one in CLUSTER.domains)
    assert recorded[10].reward == pytest.approx(nodes - own)
    assert recorded[14].reward == pytest.approx(nodes - 1000.0 * len(DOMAINS))
    assert place.phases[-1] == "serving 1"


def test_the_time_that_an_answer_may_take_can_be_changed_under_way(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_a_second(ask: Callable[[], Any], _now: object, most_s: float) -> tuple[Any, str]:
        return ask(), "" if most_s >= 1.0 else f"took 1.000 s, over {most_s:g} s"

    monkeypatch.setattr("services._kit.answering.timed", of_a_second)
    place.minutes(1, 1)
    rules = RolloutRules(most_answer_seconds=1.0)
    place.promote(commander_files(commander_network(headroom=0.99)), rules=rules)
    place.minutes(2, 8)
    assert place.phases[-1] == "serving 1"
    (order,) = place.bus.events(ModelPromoted)
    stricter = RolloutRules(most_answer_seconds=0.2)
    place.bus.publish(
        msgspec.structs.replace(order, rules=stricter, promoted_at="2026-11-20T15:00:00Z")
    )
    place.minutes(9, 10)
    assert place.phases[-1] == "rolled-back"
    assert "over 0.2 s" in place.bus.events(ModelJudged)[-1].reason


def wrong_shape() -> dict[str, bytes]:
    network = linear_policy()
    return files_of(network, manifest_of(network))


def truncated() -> dict[str, bytes]:
    files = commander_files(commander_network())
    return {**files, MODEL: files[MODEL][:-10]}


def drifted() -> dict[str, bytes]:
    return commander_files(commander_network(), features_sha256="1" * 64)


REFUSED: dict[str, tuple[Callable[[], dict[str, bytes]], str]] = {
    "wrongly signed": (lambda: commander_files(commander_network(), OTHER_KEY), "trusted keys"),
    "not signed": (lambda: commander_files(commander_network(), None), "is not signed"),
    "truncated": (truncated, "was changed or truncated"),
    "wrong shape": (wrong_shape, "was trained on other features"),
    "other features": (drifted, "was trained on other features"),
    "distributions of other features": (
        lambda: commander_files(commander_network(), extra=features("soldier-policy", spread=0.0)),
        "expected the features of the contract",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_may_not_be_served_is_refused_in_one_line_and_nothing_changes(
    place: Place, case: str
) -> None:
    make, reason = REFUSED[case]
    place.minutes(1, 1)
    place.promote(make())
    place.minutes(2, 3)
    assert place.phases == ["loading", "refused"]
    (text,) = [e.reason for e in place.bus.events(ModelJudged) if e.phase == "refused"]
    assert reason in text
    assert "\n" not in text
    assert place.advised(3) == [""] * len(DOMAINS)


def test_a_domain_that_falls_back_decides_without_the_policy(place: Place) -> None:
    place.minutes(1, 1)
    name = place.promote(commander_files(commander_network(headroom=0.99)))
    place.minutes(2, 8)
    place.bus.publish(
        BreakerChanged(
            scope="payments",
            state="closed",
            tick=49,
            time=time_of(49),
            since_tick=49,
            level="heuristic",
        )
    )
    place.minutes(9, 9)
    found = dict(zip(DOMAINS, place.advised(9), strict=True))
    assert found.pop("payments") == ""
    assert set(found.values()) == {name}


# Whatever a policy answers.

_EVIL = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 0.0, -1.0, 1.0, 5e-324])
_DECISIONS = int(os.environ.get("HIRL_POLICY_DECISIONS", "400"))


def answers(random: np.random.Generator) -> Iterator[Residual]:
    """Residuals within and far outside of every range, in right and wrong shapes."""
    while True:
        fields: dict[str, Any] = {}
        lengths = {"rows": 1, "domains": len(DOMAINS)}
        spoiled = random.random() < 0.5
        for port in OUTPUTS:
            shape = tuple(one if isinstance(one, int) else lengths[one] for one in port.shape)
            kind = random.integers(0, 6) if spoiled else 6
            values = random.uniform(port.low, port.high, shape)
            if kind == 0:
                values = random.choice(_EVIL, shape)
            elif kind == 1:
                values.flat[random.integers(values.size)] = random.choice(_EVIL)
            elif kind == 2:
                values = random.uniform(0.2, 4.0, (1, int(random.integers(1, 9))))
            fields[port.name] = values
        yield neutral(1)._replace(**fields)


def test_whatever_a_policy_answers_budgets_keep_their_sums_and_floors(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.minutes(1, 1)
    state: Any = place.bus._processes["commander"].engine._store.get("cluster")  # type: ignore[union-attr]
    handler: Any = CommanderHandler(CLUSTER, tuned_parameters(), GRACE_S, rules=RULES)
    report, forecast_of = handler._report(state), handler._forecast(12, state)
    records = pool_records(CLUSTER.pool_names, state.pools)
    readings = PoolReadings(records, handler._inventory)
    asked = (np.array([12], np.int32), readings, report, forecast_of)
    floors = handler._inventory.floor_share
    used = 0
    for number, answer in enumerate(answers(np.random.default_rng(0))):
        if number == _DECISIONS:
            break
        policy = Policy("commander/x", lambda *_, answer=answer: answer)
        applied = np.ones(len(DOMAINS), np.bool_)
        advice = advise(Deciding(None, None, policy, applied), asked, lambda: 0.0)
        used += advice.candidate is not None
        decision = handler._commander.decide(*asked, np.array([2], np.int32), advice.residual)
        budget = decision.directive.budget
        share, reserve = budget.share[0], float(budget.reserve[0])
        assert abs(share.sum() + reserve - 1.0) < 1e-9
        assert (share >= -1e-12).all()
        assert reserve >= -1e-12
        feasible = floors.sum() <= 1.0
        assert not feasible or (share >= floors - 1e-9).all()
        assert np.isfinite(budget.cores).all()
        assert (budget.cores >= 0).all()
        assert (decision.nodes >= 0).all()
        total = decision.nodes[0].sum(axis=1) + readings.ready[0]
        quota = np.maximum(readings.quota[0], readings.ready[0])
        assert (total <= quota + 1e-9).all()
        # Overdrafts of all domains never exceed the reserve.
        reserve_cores = reserve * float(readings.cpu[0].sum())
        assert budget.overdraft[0].sum() <= reserve_cores + 1e-6
    # Some answers were usable, so the bounds were put to the test.
    assert 0 < used < _DECISIONS

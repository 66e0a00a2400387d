"""Soldiers follow promoted policies, agree on what they take back, and plan as in the simulator."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from models.control.tuned import tuned_parameters
from models.policies.features import feature_names
from models.registry.manifest import MANIFEST, read_manifest
from models.registry.rollout import Rules
from models.registry.store import Entry, FolderStore
from schemas.breaker_changed import BreakerChanged
from schemas.model_judged import ModelJudged
from schemas.model_promoted import ModelPromoted, RolloutRules
from schemas.scale_planned import ScalePlanned
from schemas.transition_recorded import TransitionRecorded
from services._kit.clock import ManualClock
from services._kit.handler import Service
from services._kit.memory import MemoryBus
from services._kit.models import ModelLoader
from services.aggregator.decide import AggregatorHandler
from services.soldier.advice import open_policy
from services.soldier.decide import SoldierHandler
from tests.planted_models import OTHER_KEY, TRUST, features, soldier_files, soldier_network
from tests.service_helpers import CLUSTER, declared, granted, pools, sampled, time_of

RULES = Rules(shadow_decisions=2, stage_decisions=1)
GRACE_S = 2.0
DOMAINS: Final = ("merchant", "data")
"""Of lower priorities: a policy may take from them, too."""
COUNT: Final = 10


def apps_of(domain: str) -> list[str]:
    return [f"{domain}-{number:04}" for number in range(1, COUNT + 1)]


class Place:
    """A bus with aggregator and Soldiers, and a store."""

    def __init__(self, folder: Path) -> None:
        self.store = FolderStore(folder)
        self.bus = MemoryBus(ManualClock(1000.0))
        self.bus.add(lambda: Service(AggregatorHandler(CLUSTER, tuned_parameters(), GRACE_S)))
        self.bus.add(self._soldiers)
        for domain in DOMAINS:
            self.bus.publish(*(declared(app, domain=domain) for app in apps_of(domain)))
        self.bus.publish(*pools(0))
        self._orders = 0

    def _soldiers(self) -> Service[Any]:
        loader = ModelLoader("soldier-policy", self.store, TRUST, open_policy)
        return Service(SoldierHandler(CLUSTER, tuned_parameters(), GRACE_S, rules=RULES), loader)

    def promote(self, files: dict[str, bytes], **more: Any) -> str:
        """Put an artefact into the store and promote it; returns its name."""
        manifest = read_manifest(files[MANIFEST], "x")
        self.store.write(Entry("soldier-policy", manifest.version), files)
        self._orders += 1
        fields = {
            "model": "soldier",
            "version": manifest.name,
            "sha256": manifest.version,
            "promoted_at": f"2026-11-20T14:00:{self._orders:02}Z",
        }
        self.bus.publish(ModelPromoted(**(fields | more)))
        self.bus.run()
        return manifest.name

    def ticks(self, first: int, last: int, use: float = 0.4) -> None:
        for tick in range(first, last + 1):
            self.bus.advance(10.0)
            for domain in DOMAINS:
                apps = apps_of(domain)
                self.bus.publish(sampled(tick, use, domain=domain, apps=apps))
                if tick % 6 == 0:
                    self.bus.publish(granted(tick, domain=domain))
            self.bus.run()

    def restart(self) -> None:
        self.bus.kill("soldier", redeliver=3)
        self.bus.start("soldier")

    def phases(self, domain: str) -> list[str]:
        events = [e for e in self.bus.events(ModelJudged) if e.scope == domain]
        return [f"{e.phase} {e.share:g}" if e.share else e.phase for e in events]

    def plan(self, domain: str, tick: int) -> ScalePlanned:
        (found,) = [
            e for e in self.bus.events(ScalePlanned) if (e.domain, e.tick) == (domain, tick)
        ]
        return found


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


STAGES = ["loading", "shadow", "canary 0.05", "canary 0.3", "canary 1", "serving 1"]


def test_a_policy_is_swapped_in_by_apps_in_the_same_ticks_of_all_domains(tmp_path: Path) -> None:
    alone, place = Place(tmp_path / "a"), Place(tmp_path / "b")
    for one in (alone, place):
        one.ticks(0, 1)
    name = place.promote(soldier_files(soldier_network(1.01)))
    for one in (alone, place):
        one.ticks(2, 8)
    for domain in DOMAINS:
        assert place.phases(domain) == STAGES
        # Two ticks of shadow, then 5 %, 30 % and all of the apps, and nothing else of the plan.
        counts = []
        for tick in range(2, 9):
            needs = (np.array(one.plan(domain, tick).need) for one in (place, alone))
            ours, theirs = needs
            counts.append(int((ours > theirs * 1.005).sum()))
        assert counts == [0, 0, 1, 3, 10, 10, 10]
        versions = [place.plan(domain, tick).versions for tick in (3, 4, 6, 8)]
        assert [one.get("soldier", "") for one in versions] == ["", "", name, name]
        assert [one.get("soldier-canary", "") for one in versions] == ["", name, "", ""]
    assert place.bus.dead_letters == []


def test_transitions_say_how_much_differs_from_the_heuristics_plan(place: Place) -> None:
    place.ticks(0, 1)
    place.promote(soldier_files(soldier_network(0.7)))
    place.ticks(2, 11)
    # Pods are full in this tick: the heuristic wants more of them, the policy does not.
    place.ticks(12, 12, use=0.79)
    place.ticks(13, 18)
    found = {(e.agent, e.tick): e.counterfactual for e in place.bus.events(TransitionRecorded)}
    for domain in DOMAINS:
        assert found[f"soldier/{domain}", 0] == {}
        beside = found[f"soldier/{domain}", 12]
        assert beside["differs"] > 0
        # It holds less and lacks more; the priority decides which of them weighs more.
        assert beside["cost"] != beside["heuristic_cost"]


def test_a_neutral_policy_plans_as_the_heuristic_does_bit_for_bit(tmp_path: Path) -> None:
    alone, place = Place(tmp_path / "a"), Place(tmp_path / "b")
    for one in (alone, place):
        one.ticks(0, 1)
    place.promote(soldier_files(soldier_network()))
    for one in (alone, place):
        one.ticks(2, 12)
    for domain in DOMAINS:
        for tick in range(13):
            ours, theirs = place.plan(domain, tick), alone.plan(domain, tick)
            assert (ours.need, ours.replicas, ours.reasons) == (
                theirs.need, theirs.replicas, theirs.reasons
            )  # fmt: skip


def test_a_restart_in_any_stage_continues_in_it_and_plans_the_same(tmp_path: Path) -> None:
    files = soldier_files(soldier_network(1.01, slope=0.001))
    steady, killed = Place(tmp_path / "a"), Place(tmp_path / "b")
    for place in (steady, killed):
        place.ticks(0, 1)
        place.promote(files)
    for tick in range(2, 10):
        steady.ticks(tick, tick)
        killed.restart()
        killed.ticks(tick, tick)
    for domain in DOMAINS:
        assert steady.phases(domain) == STAGES
        assert killed.phases(domain) == STAGES
        for tick in range(2, 10):
            assert killed.plan(domain, tick) == steady.plan(domain, tick)


def test_decisions_replay_bit_for_bit_with_the_version_that_they_carry(tmp_path: Path) -> None:
    place, replay, alone = (Place(tmp_path / name) for name in "abc")
    files = soldier_files(soldier_network(1.05, slope=0.02))
    place.promote(files, status="rolled-back")
    place.ticks(0, 14, use=0.7)
    # All that is known of the decisions is what they carry.
    name = place.plan("data", 14).versions["soldier"]
    for entry in place.store.entries():
        stored = dict(place.store.read(entry))
        if read_manifest(stored[MANIFEST], "x").name == name:
            replay.promote(stored, status="rolled-back")
    for one in (replay, alone):
        one.ticks(0, 14, use=0.7)
    for domain in DOMAINS:
        recorded = [place.plan(domain, tick) for tick in range(15)]
        assert recorded == [replay.plan(domain, tick) for tick in range(15)]
        # The heuristic alone needs other pods: the version took part.
        assert recorded[14].need != alone.plan(domain, 14).need


def test_what_one_domain_takes_back_every_domain_takes_back(place: Place) -> None:
    place.ticks(0, 1)
    place.promote(soldier_files(soldier_network(1.01)))
    place.ticks(2, 4)
    # Only this domain is ahead, and finds that the candidate asks for too much.
    place.bus.publish(
        ModelJudged(
            tick=4, time=time_of(4), model="soldier", scope="fraud", phase="rolled-back",
            version="x", sha256=place.bus.events(ModelJudged)[0].sha256, reason="need: no number",
            order=place.bus.events(ModelJudged)[0].order,
        )
    )  # fmt: skip
    place.ticks(5, 6)
    for domain in DOMAINS:
        assert place.phases(domain)[-1] == "rolled-back"
        assert "soldier-canary" not in place.plan(domain, 6).versions
    reasons = [e.reason for e in place.bus.events(ModelJudged) if e.phase == "rolled-back"]
    assert "fraud: need: no number" in reasons


def test_what_was_taken_back_before_may_be_promoted_again(place: Place) -> None:
    place.ticks(0, 1)
    files = soldier_files(soldier_network(1.01))
    place.promote(files)
    place.ticks(2, 3)
    place.promote(soldier_files(soldier_network(bad="nan")), status="promoted")
    place.ticks(4, 6)
    assert place.phases("data")[-1] == "rolled-back"
    place.promote(files, unlock=True)
    place.ticks(7, 14)
    for domain in DOMAINS:
        assert place.phases(domain)[-1] == "serving 1"


def test_rules_that_change_under_way_count_from_the_next_decision_on(place: Place) -> None:
    place.ticks(0, 1)
    files = soldier_files(soldier_network(1.01))
    place.promote(files)
    place.ticks(2, 4)
    assert place.phases("data")[-1] == "canary 0.3"
    # The same order once more, with a longer stage.
    place.promote(files, rules=RolloutRules(stage_decisions=4))
    place.ticks(5, 7)
    assert place.phases("data")[-1] == "canary 0.3"
    place.ticks(8, 8)
    assert place.phases("data")[-1] == "canary 1"


BAD: dict[str, tuple[Callable[[], bytes], str]] = {
    "NaN": (lambda: soldier_network(bad="nan"), "no number"),
    "1e30": (lambda: soldier_network(1e30), "is above"),
    "the most": (lambda: soldier_network(1.5), "above the incumbent's"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_policy_is_taken_back_before_anything_of_it_is_planned(
    place: Place, case: str
) -> None:
    make, reason = BAD[case]
    place.ticks(0, 1)
    place.promote(soldier_files(make()))
    place.ticks(2, 5)
    for domain in DOMAINS:
        assert place.phases(domain) == ["loading", "shadow", "rolled-back"]
        for tick in range(2, 6):
            assert set(place.plan(domain, tick).versions) == {"policy"}
    assert any(reason in e.reason for e in place.bus.events(ModelJudged))


def test_without_its_store_a_restarted_soldier_plans_by_the_heuristic_and_says_so(
    tmp_path: Path,
) -> None:
    place, alone = Place(tmp_path / "a"), Place(tmp_path / "b")
    name = place.promote(soldier_files(soldier_network(1.1)), status="rolled-back")
    place.ticks(0, 3)
    assert place.plan("data", 3).versions["soldier"] == name
    assert place.plan("data", 3).fallback_reason == ""
    shutil.rmtree(tmp_path / "a")
    place.restart()
    place.ticks(4, 6)
    alone.ticks(0, 6)
    plan = place.plan("data", 6)
    assert "soldier" not in plan.versions
    assert plan.fallback_reason.startswith(f"{name} does not advise: ")
    assert plan.replicas == alone.plan("data", 6).replicas


def test_features_that_are_not_those_of_training_take_a_policy_back_in_every_domain(
    place: Place,
) -> None:
    place.ticks(0, 1)
    files = {
        spread: soldier_files(
            soldier_network(0.99), extra=features("soldier-policy", spread=spread)
        )
        for spread in (0.0, 1.0)
    }
    # Minutes are compared, not ticks: it passes all stages in the first of them.
    place.promote(files[0.0], rules=RolloutRules(drift_minutes=2))
    place.ticks(2, 13)
    for domain in DOMAINS:
        assert place.phases(domain) == [*STAGES, "rolled-back"]
        # In the first tick of the third minute, or before it, by what another domain found then.
        (event,) = [
            e
            for e in place.bus.events(ModelJudged)
            if (e.phase, e.scope) == ("rolled-back", domain)
        ]
        assert event.tick in (11, 12)
        assert "is another than in training" in event.reason
    place.promote(files[1.0], unlock=True, rules=RolloutRules(drift_minutes=1))
    place.ticks(14, 30)
    for domain in DOMAINS:
        assert place.phases(domain)[-1] == "serving 1"
    drifts = {e.agent: e.drift for e in place.bus.events(TransitionRecorded)}
    for domain in DOMAINS:
        found = drifts[f"soldier/{domain}"]
        assert found.keys() == {*feature_names("soldier-policy")}
        assert set(found.values()) == {0.0}


def test_what_may_not_be_served_is_refused_in_every_domain(place: Place) -> None:
    place.ticks(0, 1)
    place.promote(soldier_files(soldier_network(), OTHER_KEY))
    place.ticks(2, 3)
    for domain in DOMAINS:
        assert place.phases(domain) == ["loading", "refused"]


def test_a_domain_that_falls_back_plans_without_the_policy(place: Place) -> None:
    place.ticks(0, 1)
    name = place.promote(soldier_files(soldier_network(1.01)))
    place.ticks(2, 8)
    place.bus.publish(
        BreakerChanged(
            scope="data", state="closed", tick=8, time=time_of(8), since_tick=8, level="heuristic"
        )
    )
    place.ticks(9, 9)
    assert "soldier" not in place.plan("data", 9).versions
    assert place.plan("merchant", 9).versions["soldier"] == name

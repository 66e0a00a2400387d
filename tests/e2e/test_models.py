"""On a real Kafka: policies are promoted, killed in each stage, refused and taken back."""

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization

from models.registry.keys import Trust
from models.registry.load import verified
from models.registry.manifest import MANIFEST, read_manifest
from models.registry.store import Entry, FolderStore
from schemas.budget_granted import BudgetGranted
from schemas.model_judged import ModelJudged
from schemas.topics import topic_of
from services.admin.decisions import Decisions, record_decisions
from services.admin.orders import Author, publish
from services.admin.promotions import SOURCE, promotion
from services.admin.reader import ReadRecord, TopicReader
from services.devcluster import record
from services.devcluster.connect import options_for_home
from services.devcluster.launch import system
from services.devcluster.lifecycle import has_ended, wait
from services.devcluster.probe import read_journal
from services.devcluster.record import COLLECTOR
from services.devcluster.request import Request
from services.simcluster.target import Entry as JournalEntry
from tests.decision_helpers import SCENARIO
from tests.planted_models import KEY, OTHER_KEY, commander_files, commander_network

APPS: Final = int(os.environ.get("HIRL_MODELS_APPS", "60"))
SPEED: Final = 10.0
TIMEOUT_S: Final = 240.0
STAGES: Final = ("shadow", "canary 5%", "canary 30%", "canary 100%", "serving 100%")


class Outcome(NamedTuple):
    """What became of one promotion."""

    phases: tuple[str, ...]
    reason: str
    """Of the last phase."""
    seconds: float
    """From the order to the last phase."""
    applied: int
    """Budgets that it advised."""


class Rolled(NamedTuple):
    """A run in which policies of all kinds were promoted one after another."""

    outcomes: dict[str, Outcome]
    decisions: Decisions
    journal: list[JournalEntry]
    failed: list[str]


class System:
    """A running system and its store of models."""

    def __init__(self, root: Path, options: dict[str, Any], store: FolderStore) -> None:
        self.root, self._options, self._store = root, options, store

    def promote(self, files: dict[str, bytes], *, kill: bool = False) -> Outcome:
        """Promote an artefact and wait for its end; kill the Commander in each stage."""
        manifest = read_manifest(files[MANIFEST], "planted")
        self._store.write(Entry("commander-policy", manifest.version), files)
        artefact = verified(files, Trust(unsigned=True), "planted")
        order = promotion(
            artefact, self._store.url, Author("test", authenticated=False), "a test",
            time.time(), "serving",
        )  # fmt: skip
        order = msgspec.structs.replace(order, sha256=manifest.version, unlock=True)
        began, seen = time.monotonic(), list[ModelJudged]()
        publish(self._options, [order], SOURCE)
        while True:
            assert time.monotonic() - began < TIMEOUT_S, [phase_of(one) for one in seen]
            found = [
                one for one in self._read(ModelJudged)
                if isinstance(one, ModelJudged) and one.sha256 == manifest.version
            ]  # fmt: skip
            if kill and len(found) > len(seen) and found[-1].phase != "serving":
                self._kill()
            seen = found
            if seen and seen[-1].phase in ("serving", "refused", "rolled-back"):
                break
            time.sleep(0.1)
        seconds = time.monotonic() - began
        budgets = self._read(BudgetGranted)
        advised = [
            one for one in budgets
            if isinstance(one, BudgetGranted) and one.versions.get("commander") == artefact.name
        ]  # fmt: skip
        return Outcome(tuple(map(phase_of, seen)), seen[-1].reason, seconds, len(advised))

    def _read(self, kind: type[Any]) -> list[Any]:
        with TopicReader(self._options) as reader:
            found: list[ReadRecord] = reader.read_to_end([topic_of(kind).name])
        return [one.event for one in found]

    def _kill(self) -> None:
        process = record.running(self.root).status("commander").process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)


def phase_of(event: ModelJudged) -> str:
    return f"{event.phase} {event.share:.0%}" if event.share else event.phase


def drifted() -> dict[str, bytes]:
    return commander_files(commander_network(headroom=0.97), features_sha256="1" * 64)


@pytest.fixture(scope="module")
def rolled(workplace: Path) -> Iterator[Rolled]:
    root = workplace / "models"
    store = FolderStore((workplace / "store").resolve())
    key = workplace.resolve() / "release.pub"
    key.write_bytes(
        KEY.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    environment = {
        "HIRL_MODEL_STORE": store.url,
        "HIRL_MODEL_KEYS": str(key),
        "HIRL_ROLLOUT_SHADOW_DECISIONS": "1",
        "HIRL_ROLLOUT_STAGE_DECISIONS": "1",
    }
    request = Request(scenario=SCENARIO, seed=3, apps=APPS, speed=SPEED)
    with system(request, root, environment=environment) as run:
        wait(root, ticks=9, timeout_s=TIMEOUT_S)
        options = options_for_home(Path(run.kafka_home))
        ours = System(root, options, store)
        outcomes = {
            "good": ours.promote(commander_files(commander_network(headroom=0.99))),
            "killed": ours.promote(commander_files(commander_network(headroom=0.98)), kill=True),
            "wrongly signed": ours.promote(
                commander_files(commander_network(headroom=0.95), OTHER_KEY)
            ),
            "other features": ours.promote(drifted()),
            "NaN": ours.promote(commander_files(commander_network(bad="nan"))),
            "1e30": ours.promote(commander_files(commander_network(headroom=1e30))),
        }
        collector = record.running(root).status(COLLECTOR).process
        assert collector is not None
        os.kill(collector.pid, signal.SIGTERM)
        decisions = record_decisions(options, lambda: has_ended(record.running(root)))
        yield Rolled(outcomes, decisions, read_journal(run), record.running(root).failed)


def test_a_good_policy_passes_every_stage(
    rolled: Rolled, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        for name, one in rolled.outcomes.items():
            print(f"\n{name}: {one.phases[-1]} after {one.seconds:.1f} s: {one.reason}", end="")  # noqa: T201
        print()  # noqa: T201
    assert rolled.outcomes["good"].phases == ("loading", *STAGES)


def test_a_commander_that_is_killed_in_each_stage_comes_back_in_it(rolled: Rolled) -> None:
    assert rolled.outcomes["killed"].phases == ("loading", *STAGES)
    assert rolled.failed == []


@pytest.mark.parametrize(
    ("name", "reason"),
    [("wrongly signed", "trusted keys"), ("other features", "trained on other features")],
)
def test_what_may_not_be_served_is_refused_and_advises_nothing(
    rolled: Rolled, name: str, reason: str
) -> None:
    outcome = rolled.outcomes[name]
    assert outcome.phases == ("loading", "refused")
    assert reason in outcome.reason
    assert outcome.applied == 0


@pytest.mark.parametrize("name", ["NaN", "1e30"])
def test_a_bad_policy_is_taken_back_before_anything_of_it_is_applied(
    rolled: Rolled, name: str
) -> None:
    outcome = rolled.outcomes[name]
    assert outcome.phases == ("loading", "shadow", "rolled-back")
    assert outcome.applied == 0


def test_no_change_is_lost_or_doubled(rolled: Rolled) -> None:
    reported = Counter(
        (applied.decision_id, app)
        for applied in rolled.decisions.applied.values()
        for at, app in enumerate(applied.apps)
        if applied.outcomes[at] == "applied"
    )
    done = Counter((one.decision_id, one.app) for one in rolled.journal if one.outcome == "applied")
    assert set(done.values()) <= {1}
    assert done == reported
    assert done.total() > 0

"""The gate accepts what is better everywhere, and says of anything else what would pass."""

from typing import Any

import msgspec
import numpy as np
import pytest

from models.registry.evidence import Cost, Evidence, Runs
from models.registry.gate import Check, Limits, Present, Verdict
from models.registry.gate import judge as judge_all
from models.registry.manifest import Manifest, sealed
from tests.planted_models import linear_policy, manifest_of

SCENARIOS = ["calm", "sale", "cascade"]
RANDOM = np.random.default_rng(0)
BASE = RANDOM.uniform(900, 1100, (3, 10))
MINUTES = RANDOM.uniform(18, 22, (3, 10))
MANIFEST = sealed(manifest_of(linear_policy()), {})
PRESENT = Present(features_sha256=MANIFEST.features_sha256, code_sha256="c" * 16)


def runs(candidate: Any, incumbent: Any) -> Runs:
    return Runs(scenarios=SCENARIOS, candidate=candidate.tolist(), incumbent=incumbent.tolist())


def noise(scale: float, seed: int = 1) -> Any:
    return np.random.default_rng(seed).normal(1.0, scale, BASE.shape)


def evidence(**changes: Any) -> Evidence:
    """A model that is better everywhere, with changes."""
    good = Evidence(
        artefact=MANIFEST.version,
        code_sha256=PRESENT.code_sha256,
        parity=1e-6,
        states=100,
        drift={"rps": 0.05, "errors": 0.0},
        objective=runs(BASE * 0.9 * noise(0.01), BASE),
        equal_cost=runs(BASE * 0.9 * noise(0.01), BASE),
        p0_minutes=runs(MINUTES * 0.8, MINUTES),
        budget_overruns=0,
        spend_overruns=0,
        oscillation=0.01,
        cost=Cost(trajectories=(BASE.ravel() / 10).tolist(), cap=120.0, epsilon=2.0),
        decision_ms=0.3,
    )
    return msgspec.structs.replace(good, **changes)


def judge(
    manifest: Manifest, found: Evidence, limits: Limits, *, equal_ok: bool = False
) -> Verdict:
    return judge_all(manifest, found, PRESENT, limits, equal_ok=equal_ok)


def failed(verdict: Verdict) -> list[str]:
    return [check.name for check in verdict.checks if not check.passed]


def test_better_everywhere_is_accepted() -> None:
    verdict = judge(MANIFEST, evidence(), Limits())
    assert failed(verdict) == []
    assert verdict.accepted


def test_better_overall_but_worse_for_p0_in_one_scenario_is_refused_and_names_it() -> None:
    sold = MINUTES * np.array([[0.5], [1.3], [0.5]])
    verdict = judge(MANIFEST, evidence(p0_minutes=runs(sold, MINUTES)), Limits())
    assert failed(verdict) == ["p0"]
    (reason,) = verdict.reasons
    assert "sale: +6.0 min" in reason
    assert "P0 must not get worse in sale" in reason


def test_equal_within_noise_is_refused_unless_equal_will_do() -> None:
    equal = evidence(
        objective=runs(BASE * noise(0.01), BASE), p0_minutes=runs(MINUTES * noise(0.01), MINUTES)
    )
    verdict = judge(MANIFEST, equal, Limits())
    assert failed(verdict) == ["objective"]
    assert "--equal-ok" in verdict.reasons[0]
    assert judge(MANIFEST, equal, Limits(), equal_ok=True).accepted


def test_noise_is_not_equal() -> None:
    unclear = evidence(objective=runs(BASE * noise(0.3), BASE))
    verdict = judge(MANIFEST, unclear, Limits(), equal_ok=True)
    assert failed(verdict) == ["objective"]
    assert "more seeds" in verdict.reasons[0]


def test_worse_is_refused_even_if_equal_would_do() -> None:
    worse = evidence(objective=runs(BASE * 1.1 * noise(0.01), BASE))
    verdict = judge(MANIFEST, worse, Limits(), equal_ok=True)
    assert failed(verdict) == ["objective"]
    assert "it is worse" in verdict.reasons[0]


@pytest.mark.parametrize(
    ("changes", "name", "remedy"),
    [
        ({"parity": 2e-3}, "parity", "export it again"),
        ({"parity": float("nan")}, "parity", "export it again"),
        ({"states": 99}, "parity", "100 states"),
        ({"artefact": "1" * 64}, "subject", "measure this artefact"),
        ({"code_sha256": "d" * 16}, "code", "measure it again with this code"),
        ({"drift": {"rps": 0.051, "errors": 0.0}}, "drift", "rps is another now"),
        ({"drift": {}}, "drift", "recorded frames"),
        ({"budget_overruns": 1}, "budget overruns", "not projected"),
        ({"spend_overruns": 3}, "spend overruns", "not projected"),
        ({"oscillation": 0.031}, "oscillation", "cost of moving"),
        ({"decision_ms": 6.0}, "decision time", "smaller network"),
        (
            {"cost": Cost(trajectories=[90.0, 110.0] * 20, cap=120.0, epsilon=1.0)},
            "certificate",
            "trajectories",
        ),
        (
            {"cost": Cost(trajectories=[119.0, 119.1] * 20, cap=120.0, epsilon=2.0)},
            "certificate",
            "a cost lower by",
        ),
        ({"objective": runs(BASE[:, :1] * 0.5, BASE[:, :1])}, "objective", "more seeds"),
        ({"p0_minutes": runs(MINUTES[:, :1], MINUTES[:, :1])}, "p0", "P0 must not get worse"),
    ],
)  # fmt: skip
def test_each_check_fails_alone_and_says_what_would_pass(
    changes: dict[str, Any], name: str, remedy: str
) -> None:
    if "objective" in changes:
        changes = changes | {
            "objective": Runs(scenarios=["calm"], candidate=[[1.0]], incumbent=[[2.0]])
        }
    verdict = judge(MANIFEST, evidence(**changes), Limits())
    assert failed(verdict) == [name]
    assert remedy in verdict.reasons[0]


def test_a_model_of_other_features_is_refused() -> None:
    present = PRESENT._replace(features_sha256="1" * 64)
    verdict = judge_all(MANIFEST, evidence(), present, Limits())
    assert failed(verdict) == ["features"]
    assert "train it again" in verdict.reasons[0]


def test_a_model_of_another_world_is_refused() -> None:
    manifest = msgspec.structs.replace(MANIFEST, world_sha256="2" * 64)
    assert failed(judge(manifest, evidence(), Limits())) == ["world"]
    assert judge(manifest, evidence(world_sha256="2" * 64), Limits()).accepted


def test_what_was_not_measured_fails_every_check_that_needs_it() -> None:
    verdict = judge(MANIFEST, Evidence(), Limits())
    assert not verdict.accepted
    unknown = {check.name for check in verdict.checks if check.found == "no evidence"}
    assert unknown == {
        "parity", "drift", "objective", "p0", "budget overruns", "spend overruns", "decision time",
        "oscillation", "certificate", "subject", "code", "equal cost",
    }  # fmt: skip


def test_a_forecaster_needs_no_certificate_of_decisions_it_does_not_make() -> None:
    manifest = msgspec.structs.replace(MANIFEST, kind="forecaster")
    names = [check.name for check in judge(manifest, evidence(), Limits()).checks]
    assert "certificate" not in names
    assert "objective" in names


def test_a_reason_is_one_line() -> None:
    for check in judge(MANIFEST, Evidence(), Limits()).checks:
        assert isinstance(check, Check)
        assert "\n" not in str(check)

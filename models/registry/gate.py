"""Whether a model may be promoted: small checks of recorded evidence, and a verdict with reasons.

Each check says what was found, what is allowed, and what would pass. Evidence that is missing fails
its check: what was not measured is not known to be harmless.
"""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from models.registry.drift import farthest
from models.registry.evidence import Evidence, Runs
from models.registry.manifest import Manifest
from models.registry.parity import PARITY
from models.statistics import Interval, mean, ratio_over_scenarios

F64 = NDArray[np.float64]
P0Verdict = Literal["holds", "open", "sells P0"]
"""Shown not to be worse, not known, and worse beyond doubt; only the first passes."""

LEAST_STATES: Final = 100


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Thresholds of the gate."""

    parity: float = PARITY
    """Largest difference between the network and its export."""
    drift: float = 0.05
    """Largest Kolmogorov-Smirnov distance of a feature between training and recorded frames, beyond
    the distance of any run of training."""
    p0_share: float = 0.05
    """By how much of the incumbent's P0 violation minutes a scenario may be worse, at most, with
    97.5 % confidence: without any room, no model that is equal could pass in every scenario."""
    p0_minutes: float = 1.0
    """The same in minutes a run, for scenarios in which hardly any occur."""
    equal: float = 0.02
    """By how much J may be higher, with 97.5 % confidence, where equal will do: an interval that
    only reaches 1 would let two noisy seeds pass."""
    oscillation: float = 0.03
    """Largest share of decisions that undo the one before."""
    decision_ms: float = 5.0
    """Longest decision, 99th percentile."""
    z: float = 1.645
    """Quantile of the certificate: 95 %, one-sided."""


class Present(NamedTuple):
    """What a model would meet if it were promoted now."""

    features_sha256: str
    """Digest of the features that services encode for it."""
    code_sha256: str
    """Digest of the code that decides beside it."""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One check and its outcome."""

    name: str
    passed: bool
    found: str
    allowed: str
    remedy: str = ""
    """What would pass; empty if it did."""

    def __str__(self) -> str:
        return f"{self.name}: {self.found}, allowed {self.allowed}; {self.remedy}"


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a model may be promoted, and why not."""

    accepted: bool
    checks: list[Check]

    @property
    def reasons(self) -> list[str]:
        """The checks that failed."""
        return [str(check) for check in self.checks if not check.passed]


def judge(
    manifest: Manifest,
    evidence: Evidence,
    present: Present,
    limits: Limits,
    *,
    equal_ok: bool = False,
) -> Verdict:
    """Run every check."""
    policy = manifest.kind != "forecaster"
    checks = [
        subject(manifest, evidence),
        parity(evidence, limits),
        features_match(manifest, present),
        code_matches(evidence, present),
        world_matches(manifest, evidence),
        drift(evidence, limits),
        decision_time(evidence, limits),
        *judge_runs(evidence, limits, policy=policy, equal_ok=equal_ok),
    ]
    return Verdict(accepted=all(check.passed for check in checks), checks=checks)


def judge_runs(
    evidence: Evidence, limits: Limits, *, policy: bool, equal_ok: bool = False
) -> list[Check]:
    """The checks of what runs beside the incumbent say: those of `hirl bench policy`."""
    checks = [
        objective(evidence.objective, limits, equal_ok=equal_ok),
        p0(evidence, limits),
        overruns("budget overruns", evidence.budget_overruns),
        overruns("spend overruns", evidence.spend_overruns),
    ]
    if policy:
        # A forecast moves nothing by itself: only raises what the heuristic does.
        checks += [
            equal_cost(evidence.equal_cost, limits, equal_ok=equal_ok),
            oscillation(evidence, limits),
            certificate(evidence, limits),
        ]
    return checks


def subject(manifest: Manifest, evidence: Evidence) -> Check:
    """The evidence is about this artefact, and no other one."""
    allowed = f"about {_short(manifest.version)}"
    if not evidence.artefact:
        return _unknown("subject", allowed, "the version of the artefact that was measured")
    return _check(
        "subject", evidence.artefact == manifest.version, f"about {_short(evidence.artefact)}",
        allowed, "measure this artefact",
    )  # fmt: skip


def parity(evidence: Evidence, limits: Limits) -> Check:
    """The export answers like the network, on enough states."""
    allowed = f"below {limits.parity:g} on {LEAST_STATES} states"
    if evidence.parity is None:
        return _unknown("parity", allowed, "an artefact with samples.json")
    enough = evidence.states >= LEAST_STATES
    return _check(
        "parity", enough and evidence.parity < limits.parity,
        f"{evidence.parity:.1e} on {evidence.states}", allowed,
        "export it again from the same weights" if enough else f"{LEAST_STATES} states in samples",
    )  # fmt: skip


def features_match(manifest: Manifest, present: Present) -> Check:
    """Services encode the features that the model was trained on."""
    same = manifest.features_sha256 == present.features_sha256
    return _check(
        "features", same, f"trained on {_short(manifest.features_sha256)}",
        f"{_short(present.features_sha256)}, which services encode",
        "train it again with the features of this release",
    )  # fmt: skip


def code_matches(evidence: Evidence, present: Present) -> Check:
    """The figures come from the code that decides beside the model."""
    allowed = f"{_short(present.code_sha256)}, which decides here"
    if not evidence.code_sha256:
        return _unknown("code", allowed, "the digest of the code that decided")
    return _check(
        "code", evidence.code_sha256 == present.code_sha256,
        f"measured with {_short(evidence.code_sha256)}", allowed, "measure it again with this code",
    )  # fmt: skip


def world_matches(manifest: Manifest, evidence: Evidence) -> Check:
    """The evidence comes from the world that the model was trained in."""
    # A model that learned from no single world can be judged in any.
    same = manifest.world_sha256 in ("", evidence.world_sha256)
    return _check(
        "world", same, f"trained in {_short(manifest.world_sha256)}",
        f"{_short(evidence.world_sha256)}, in which it was judged",
        "judge it in its own world, or train it again in this one",
    )  # fmt: skip


def drift(evidence: Evidence, limits: Limits) -> Check:
    """The features of recorded frames are distributed as in an hour of training."""
    allowed = f"at most {limits.drift:g}"
    if not evidence.drift:
        return _unknown("drift", allowed, "recorded frames, and an artefact with features.json")
    name = farthest(evidence.drift)
    return _check(
        "drift", evidence.drift[name] <= limits.drift, f"{evidence.drift[name]:.3f} of {name}",
        allowed, f"train it on frames like the recorded ones: {name} is another now",
    )  # fmt: skip


def objective(runs: Runs | None, limits: Limits, *, equal_ok: bool) -> Check:
    """J is lower than the incumbent's, over scenarios and seeds drawn together."""
    return _lower("objective", runs, "the incumbent's", limits, equal_ok=equal_ok)


def equal_cost(runs: Runs | None, limits: Limits, *, equal_ok: bool) -> Check:
    """J is lower than that of the incumbent at the same node-hours."""
    whose = "the incumbent's at equal node-hours"
    return _lower("equal cost", runs, whose, limits, equal_ok=equal_ok)


def _lower(name: str, runs: Runs | None, whose: str, limits: Limits, *, equal_ok: bool) -> Check:
    most = 1.0 + limits.equal if equal_ok else 1.0
    allowed = f"an interval below {most:g} times {whose}"
    if runs is None:
        return _unknown(name, allowed, "runs of both models on held-out seeds")
    found = ratio_over_scenarios(_table(runs.candidate), _table(runs.incumbent))
    text = f"J {found.value:.3f} [{found.low:.3f}, {found.high:.3f}] times {whose}"
    # NaN compares as false: one run has no interval, and proves nothing.
    passed = found.high < most
    worse = found.low > 1.0
    remedy = (
        f"it is worse: J has to fall by {found.value - 1:.1%} more"
        if worse
        else "it is not known to be better: more seeds, or --equal-ok if equal will do"
    )
    return _check(name, bool(passed), text, allowed, remedy)


def p0(evidence: Evidence, limits: Limits) -> Check:
    """No scenario sells the highest priority, whatever the others gain."""
    allowed = (
        f"at most {limits.p0_share:.0%} of the incumbent's or {limits.p0_minutes:g} min more, "
        "in every scenario"
    )
    runs = evidence.p0_minutes
    if runs is None:
        return _unknown("p0", allowed, "P0 violation minutes of both models")
    worst, text, sold = -np.inf, "", list[str]()
    rows = zip(runs.scenarios, runs.candidate, runs.incumbent, strict=True)
    for scenario, candidate, incumbent in rows:
        ours, theirs = np.array(candidate), np.array(incumbent)
        more, verdict = p0_of_scenario(ours, theirs, limits)
        room = _room(theirs, limits)
        excess = more.high - room if np.isfinite(more.high) else np.inf
        if verdict != "holds":
            sold.append(scenario)
        if excess > worst:
            worst = excess
            text = (
                f"{scenario}: {more.value:+.1f} min, upper bound {more.high:+.1f}, room {room:.1f}"
            )
    remedy = f"P0 must not get worse in {', '.join(sold)}"
    return _check("p0", bool(text) and not sold, text or "no scenario", allowed, remedy)


def p0_of_scenario(ours: F64, theirs: F64, limits: Limits) -> tuple[Interval, P0Verdict]:
    """P0 minutes more than theirs per seed, and whether that is known to be harmless."""
    more = mean(ours - theirs)
    # One seed has no interval, and proves nothing.
    if more.high <= _room(theirs, limits):
        return more, "holds"
    return more, "sells P0" if more.low > 0.0 else "open"


def _room(theirs: F64, limits: Limits) -> float:
    return max(limits.p0_share * float(theirs.mean()), limits.p0_minutes)


def overruns(name: str, count: int | None) -> Check:
    """Nothing was ever spent that was not granted."""
    if count is None:
        return _unknown(name, "0", "a run that counts them")
    return _check(name, count == 0, f"{count:,}", "0", "its plans are not projected: a defect")


def oscillation(evidence: Evidence, limits: Limits) -> Check:
    """Decisions seldom undo the one before."""
    allowed = f"below {limits.oscillation:.0%}"
    if evidence.oscillation is None:
        return _unknown("oscillation", allowed, "the share of reversals")
    return _check(
        "oscillation", evidence.oscillation < limits.oscillation, f"{evidence.oscillation:.1%}",
        allowed, "train it with a higher cost of moving",
    )  # fmt: skip


def certificate(evidence: Evidence, limits: Limits) -> Check:
    """Enough trajectories, N >= (z sigma / epsilon)^2, and mean cost + epsilon below the cap."""
    allowed = "mean + epsilon below the cap, on N >= (z sigma / epsilon)^2 trajectories"
    cost = evidence.cost
    if cost is None or len(cost.trajectories) < 2 or not cost.epsilon > 0:
        return _unknown("certificate", allowed, "costs of simulated trajectories")
    costs = np.array(cost.trajectories)
    average = float(costs.mean())
    needed = int(np.ceil((limits.z * float(costs.std(ddof=1)) / cost.epsilon) ** 2))
    bound, enough = average + cost.epsilon, costs.size >= needed
    found = f"{bound:,.1f} on {costs.size}, needed {needed}, cap {cost.cap:,.1f}"
    remedy = f"a cost lower by {bound - cost.cap:,.1f}" if enough else f"{needed} trajectories"
    return _check("certificate", bool(enough and bound <= cost.cap), found, allowed, remedy)


def decision_time(evidence: Evidence, limits: Limits) -> Check:
    """A decision is made in time."""
    allowed = f"at most {limits.decision_ms:g} ms"
    if evidence.decision_ms is None:
        return _unknown("decision time", allowed, "the 99th percentile of its decisions")
    return _check(
        "decision time", evidence.decision_ms <= limits.decision_ms,
        f"{evidence.decision_ms:.2f} ms p99", allowed, "a smaller network",
    )  # fmt: skip


def _check(name: str, passed: bool, found: str, allowed: str, remedy: str) -> Check:
    return Check(
        name=name, passed=bool(passed), found=found, allowed=allowed,
        remedy="" if passed else remedy,
    )  # fmt: skip


def _unknown(name: str, allowed: str, missing: str) -> Check:
    return _check(name, False, "no evidence", allowed, f"needs {missing}")


def _table(rows: Sequence[Sequence[float]]) -> F64:
    return np.array(rows, np.float64)


def _short(digest: str) -> str:
    return digest[:12] or "none"

"""How a promoted model comes to decide: shadow, canary in stages, all; and back at once if it errs.

Pure: a `Rollout` is saved with the state of its service, so a restart continues in the same stage.
Time is in ticks of event time. A model that cannot be loaded never replaces one that works.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from math import ceil, isfinite
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.registry import burn as burns
from models.registry.burn import Burn

Phase = Literal["loading", "shadow", "canary", "serving", "refused", "rolled-back", "heuristic"]


class Stage(IntEnum):
    """Numbers are saved in states."""

    NONE = 0
    """No candidate."""
    LOADING = 1
    SHADOW = 2
    """It decides, and nothing of it is applied."""
    CANARY = 3
    """It decides for a share; `share_index` says which."""


@dataclass(frozen=True)
class Ref:
    """A version of a model."""

    name: str
    """What events carry."""
    sha256: str
    """The artefact's version."""


@dataclass(frozen=True)
class Rules:
    """When a candidate moves on, and when it is taken back."""

    shadow_decisions: int = 15
    """Decisions in shadow, with known outcomes, before the first canary."""
    stage_decisions: int = 10
    """The same in each stage of the canary."""
    patience_decisions: int = 30
    """Decisions of a stage whose outcomes may stay unknown. After more of them the candidate is
    taken back: what cannot be judged is not promoted, and does not wait for ever."""
    shares: tuple[float, ...] = (0.05, 0.30, 1.0)
    """Of the domains, by stage of the canary."""
    most_worse: float = 0.02
    """Share by which the candidate's cost may exceed the incumbent's over a stage."""
    drift_minutes: int = 60
    """Window over which features are compared with those of training."""
    most_drift: float = 0.6
    """Distance from training, beyond that of any run of training, at which a policy is taken back.
    Hours of load that training had no like of are up to 0.43 away."""
    most_answer_seconds: float = 0.05
    """Longest answer of a model."""
    most_spend: float = 0.96
    """Share of the spend cap that the mean cost of the last hour may reach under a Commander's
    policy: a cap that is reached is late."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Of the objective by priority, where they are not those of the cluster file."""
    lock_ticks: int = 180
    """Time after a rollback in which nothing else is promoted."""
    retry_ticks: int = 60
    """Time until a model that could not be loaded is tried again."""


class Order(NamedTuple):
    """What the registry wants."""

    id: str
    """Changes with every order, also for the same version."""
    target: Ref | None
    """None: the heuristic, or what ships."""
    at_once: bool = False
    """A rollback: without shadow and canary."""
    unlock: bool = False
    """Whether it ends a lock that a rollback began."""
    hold_at: Literal["shadow", "canary", "serving"] = "serving"
    """The last stage that is entered without another order."""
    locked: bool = False
    """Whether the registry is locked: nothing new is begun."""


class Sample(NamedTuple):
    """One decision with a candidate beside the incumbent."""

    fault: str = ""
    """Why the candidate's answer could not be used; empty: it could."""
    cost_incumbent: float = 0.0
    cost_candidate: float = 0.0
    """What both lost by the same outcomes, or would have."""
    differs: float = 0.0
    """Share of the outputs that differ noticeably."""
    known: bool = True
    """Whether an outcome is known that these costs come from."""
    ids: Sequence[str] = ()
    """Domains or apps that the canary is drawn from, where their risk was observed."""
    risk: Sequence[float] = ()
    """Of each: 0 to 1, the share of it that is at risk of missing its SLO."""
    chance: float = burns.A_WHOLE
    """By how much the risk of one may change by chance."""


class Change(NamedTuple):
    """A step of a rollout, for an event."""

    phase: Phase
    version: Ref | None
    reason: str
    evidence: Mapping[str, float] = {}


@dataclass(frozen=True)
class Rollout:
    """Which version decides, and which one is on its way."""

    order: str = ""
    """Id of the last order that was taken in."""
    incumbent: Ref | None = None
    """None: what ships, or the heuristic."""
    previous: Ref | None = None
    """What the incumbent replaced; kept open, to return to."""
    candidate: Ref | None = None
    stage: Stage = Stage.NONE
    share_index: int = 0
    hold_at: str = "serving"
    decisions: int = 0
    """Of the candidate in this stage."""
    outcomes: int = 0
    """Of them, those with known outcomes."""
    cost_incumbent: float = 0.0
    cost_candidate: float = 0.0
    differs: float = 0.0
    """Sums over the stage."""
    burn: Burn = field(default_factory=Burn)
    """Who was at risk in this stage, and in shadow."""
    locked: bool = False
    """Whether the registry is locked: a candidate stays in its stage."""
    locked_until: int = -1
    """Tick until which nothing is promoted."""
    retry_at: int = -1
    """Tick at which the incumbent, which could not be loaded, is tried again."""
    fallback_reason: str = ""
    """Why the incumbent does not decide; empty if it does."""
    tick: int = field(default=-1)
    """Of the last decision."""

    @property
    def unavailable(self) -> str:
        """Why the incumbent does not decide, in words; empty if it does, or if there is none."""
        if self.incumbent is None or not self.fallback_reason:
            return ""
        return f"{self.incumbent.name} does not advise: {self.fallback_reason}"

    def needed(self) -> tuple[Ref, ...]:
        """Versions that have to be open."""
        refs = (self.incumbent, self.previous, self.candidate)
        return tuple(ref for ref in refs if ref is not None)


Moved = tuple[Rollout, Change | None]


def ordered(rollout: Rollout, order: Order, tick: int) -> Moved:
    """Take in an order; the same one again changes nothing."""
    if order.id == rollout.order:
        return rollout, None
    rollout = replace(rollout, order=order.id, hold_at=order.hold_at, locked=order.locked)
    if order.unlock:
        rollout = replace(rollout, locked_until=-1)
    if order.at_once:
        return _returned(rollout, order.target)
    if order.target == rollout.candidate:
        return rollout, None  # another `hold_at`, or an end of a lock
    if order.target == rollout.incumbent or order.target is None:
        withdrawn = rollout.candidate
        rollout = _without_candidate(rollout)
        change = Change("refused", withdrawn, "withdrawn") if withdrawn else None
        return rollout, change
    if order.locked or tick < rollout.locked_until:
        until = "the registry is locked" if order.locked else f"locked until {rollout.locked_until}"
        return rollout, Change("refused", order.target, f"{until}; hirl models unlock ends it")
    rollout = replace(_without_candidate(rollout), candidate=order.target, stage=Stage.LOADING)
    return rollout, Change("loading", order.target, "ordered")


def loaded(rollout: Rollout, sha256: str, problem: str, tick: int, rules: Rules) -> Moved:
    """A version is open, or cannot be: `problem` says why."""
    candidate = rollout.candidate
    if candidate is not None and candidate.sha256 == sha256 and rollout.stage == Stage.LOADING:
        if problem:
            return _without_candidate(rollout), Change("refused", candidate, problem)
        rollout = replace(_fresh(rollout), stage=Stage.SHADOW)
        return rollout, Change("shadow", candidate, "verified and loaded")
    incumbent = rollout.incumbent
    if incumbent is None or incumbent.sha256 != sha256:
        if problem and candidate is not None and candidate.sha256 == sha256:
            # After a restart in the middle of a stage.
            return _without_candidate(rollout), Change("refused", candidate, problem)
        return rollout, None
    if not problem:
        return replace(rollout, fallback_reason="", retry_at=-1), None
    retry = replace(rollout, fallback_reason=problem, retry_at=tick + rules.retry_ticks)
    return retry, Change("heuristic", incumbent, problem)


def observed(rollout: Rollout, sample: Sample, tick: int, rules: Rules) -> Moved:
    """Add a decision of the candidate: move on, stay, or take it back."""
    # Seen before. An earlier tick is a clock that was set back: it is judged like any other.
    if rollout.stage not in (Stage.SHADOW, Stage.CANARY) or tick == rollout.tick:
        return rollout, None
    if sample.fault:
        return _taken_back(rollout, sample.fault, tick, rules)
    rollout = replace(
        rollout,
        tick=tick,
        decisions=rollout.decisions + 1,
        outcomes=rollout.outcomes + sample.known,
        cost_incumbent=rollout.cost_incumbent + sample.cost_incumbent,
        cost_candidate=rollout.cost_candidate + sample.cost_candidate,
        differs=rollout.differs + sample.differs,
    )
    if sample.ids:
        burn = burns.added(rollout.burn, sample.ids, sample.risk)
        rollout = replace(rollout, burn=burn)
    enough = rules.shadow_decisions if rollout.stage == Stage.SHADOW else rules.stage_decisions
    if rollout.outcomes < enough:
        unknown = rollout.decisions - rollout.outcomes
        if unknown <= rules.patience_decisions:
            return rollout, None
        text = f"the outcomes of {unknown} decisions are not known: it cannot be judged"
        return _taken_back(rollout, text, tick, rules)
    if objection := _objection(rollout, sample.chance, rules):
        return _taken_back(rollout, objection, tick, rules)
    return _advanced(rollout, rules)


def failed(rollout: Rollout, sha256: str, problem: str, tick: int, rules: Rules) -> Moved:
    """What decides erred: what it replaced decides again, and nothing is promoted for a while.

    That is the incumbent, or its spare while the incumbent cannot be opened.
    """
    decides = (rollout.incumbent, rollout.previous)
    bad = next((ref for ref in decides if ref is not None and ref.sha256 == sha256), None)
    if bad is None:
        return rollout, None
    if rollout.candidate is not None and rollout.candidate != bad:
        problem += f"; {rollout.candidate.name} is withdrawn with it"
    if bad == rollout.incumbent:
        rollout = _with_incumbent(rollout, rollout.previous)
    rollout = replace(
        _without_candidate(rollout), previous=None, locked_until=tick + rules.lock_ticks
    )
    return rollout, Change("rolled-back", bad, problem, {"tick": float(tick)})


def given_up(rollout: Rollout, sha256: str, reason: str, tick: int, rules: Rules) -> Moved:
    """Another part of the same service took this version back: so does this one."""
    candidate = rollout.candidate
    if candidate is not None and candidate.sha256 == sha256:
        if rollout.stage == Stage.LOADING:
            # It has decided nothing here, and there is nothing to return from.
            return _without_candidate(rollout), Change("refused", candidate, reason)
        return _taken_back(rollout, reason, tick, rules)
    return failed(rollout, sha256, reason, tick, rules)


def chosen(ids: Sequence[str], version: str, share: float) -> NDArray[np.bool_]:
    """Which ids are in a canary: the same ones in every process, and more of them in later stages.

    At least one, because a canary of nobody shows nothing.
    """
    count = min(len(ids), max(1, ceil(share * len(ids)))) if share > 0 else 0
    if count in (0, len(ids)):
        return np.full(len(ids), count > 0)
    ranked = sorted(ids, key=lambda one: hashlib.sha256(f"{version}/{one}".encode()).digest())
    first = set(ranked[:count])
    return np.array([one in first for one in ids], np.bool_)


def share_of(rollout: Rollout, rules: Rules) -> float:
    """Share that the candidate decides for."""
    return rules.shares[rollout.share_index] if rollout.stage == Stage.CANARY else 0.0


def _advanced(rollout: Rollout, rules: Rules) -> Moved:
    """The next stage, unless it waits for an operator."""
    if rollout.locked:
        return rollout, None
    candidate, evidence = rollout.candidate, _evidence(rollout)
    last = rollout.stage == Stage.CANARY and rollout.share_index + 1 == len(rules.shares)
    if last:
        if rollout.hold_at != "serving":
            return rollout, None
        served = _with_incumbent(_without_candidate(rollout), candidate)
        served = replace(served, previous=rollout.incumbent)
        return served, Change("serving", candidate, "passed every stage", evidence)
    if rollout.stage == Stage.SHADOW and rollout.hold_at == "shadow":
        return rollout, None
    index = 0 if rollout.stage == Stage.SHADOW else rollout.share_index + 1
    if rollout.stage == Stage.SHADOW:
        rollout = replace(rollout, burn=burns.after_shadow(rollout.burn))
    rollout = replace(_fresh(rollout), stage=Stage.CANARY, share_index=index)
    reason = f"decides for {rules.shares[index]:.0%}"
    return rollout, Change("canary", candidate, reason, evidence)


def _taken_back(rollout: Rollout, reason: str, tick: int, rules: Rules) -> Moved:
    candidate, evidence = rollout.candidate, _evidence(rollout)
    rollout = replace(_without_candidate(rollout), locked_until=tick + rules.lock_ticks, tick=tick)
    return rollout, Change("rolled-back", candidate, reason, evidence)


def _returned(rollout: Rollout, target: Ref | None) -> Moved:
    """Obey an operator's rollback at once."""
    bad = rollout.candidate or rollout.incumbent
    rollout = _without_candidate(rollout)
    if target != rollout.incumbent:
        rollout = replace(_with_incumbent(rollout, target), previous=None)
    elif bad == target:
        return rollout, None  # it decides already
    return rollout, Change("rolled-back", bad, "ordered")


def _with_incumbent(rollout: Rollout, incumbent: Ref | None) -> Rollout:
    """With another incumbent, which has not failed to open yet."""
    return replace(rollout, incumbent=incumbent, fallback_reason="", retry_at=-1)


def _without_candidate(rollout: Rollout) -> Rollout:
    rollout = replace(_fresh(rollout), candidate=None, stage=Stage.NONE, share_index=0)
    return replace(rollout, burn=Burn())


def _fresh(rollout: Rollout) -> Rollout:
    rollout = replace(
        rollout, decisions=0, outcomes=0, cost_incumbent=0.0, cost_candidate=0.0, differs=0.0
    )
    return replace(rollout, burn=burns.next_stage(rollout.burn))


def _objection(rollout: Rollout, chance: float, rules: Rules) -> str:
    """Why a candidate does not pass the stage that it has ended."""
    excess = _excess(rollout)
    # Written so that a cost that is no number is worse, too.
    if not excess <= rules.most_worse:
        return f"its cost is {excess:.1%} above the incumbent's, over {rules.most_worse:.0%}"
    candidate, share = rollout.candidate, share_of(rollout, rules)
    if candidate is None or not share:
        return ""
    canary = chosen(rollout.burn.ids, candidate.sha256, share)
    return burns.problem(rollout.burn, canary, chance)


def _excess(rollout: Rollout) -> float:
    """By which share the candidate costs more."""
    # Without any cost, nothing is known against it.
    base = max(rollout.cost_incumbent, _LEAST_COST)
    return (rollout.cost_candidate - rollout.cost_incumbent) / base


_LEAST_COST: Final = 1e-9


def _evidence(rollout: Rollout) -> dict[str, float]:
    decisions, outcomes = max(rollout.decisions, 1), max(rollout.outcomes, 1)
    found = {
        "decisions": float(rollout.decisions),
        "outcomes": float(rollout.outcomes),
        "cost_candidate": rollout.cost_candidate / outcomes,
        "cost_incumbent": rollout.cost_incumbent / outcomes,
        "differs": rollout.differs / decisions,
    }
    # Events cannot carry what is no number.
    return {name: value for name, value in found.items() if isfinite(value)}

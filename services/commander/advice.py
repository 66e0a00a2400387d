"""What promoted policies advise the Commander, and what that would cost beside the incumbent.

Nothing that a policy answers reaches a decision unless all of it is within the ranges of its
contract. Otherwise the incumbent has advised already, or the heuristic decides alone.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I32, Mask
from models.cluster.inventory import Inventory
from models.control.budget import CommanderDecision
from models.control.fallback import Level
from models.control.report import Report
from models.control.residual import Residual, neutral
from models.features.pools import PoolReadings
from models.forecaster.port import Forecast
from models.inputs.errors import InputError
from models.policies.advisers import CommanderPolicy
from models.policies.contract import OUTPUTS, Tensor
from models.policies.features import reference_of
from models.policies.inputs import CommanderInputs
from models.policies.outputs import Answer
from models.registry.drift import Reference
from models.registry.load import Artefact
from models.registry.rollout import Sample
from services._kit.answering import answer_of, first_answer
from services._kit.following import Deciding

MODEL: Final = "commander"
"""Key of its promotions."""
MOST_SECONDS: Final = 0.05
"""Longest answer of a policy."""
_NOTICEABLE: Final = 0.01
SPEND_MINUTES: Final = 60
"""Window of the mean that is compared with the spend cap."""
_LEAST_MINUTES: Final = 10

Asked = tuple[I32, PoolReadings, Report, Forecast | None]
"""What a policy sees: tick, pools, reports and usable forecasts."""
Ask = Callable[[I32, PoolReadings, Report, Forecast | None], Residual]


class Policy(NamedTuple):
    """An open policy."""

    name: str
    """What decisions carry."""
    ask: Ask
    """Raises if its answer cannot be used."""
    reference: Reference | None = None
    """Its features in training, if they were recorded."""


class Advice(NamedTuple):
    """What applies to a decision, and what is to be judged. E = 1, D domains."""

    residual: Residual
    names: tuple[str, ...]
    """[D] the policy behind each domain; empty: the heuristic alone."""
    incumbent: Residual
    """What would apply without a candidate."""
    candidate: Residual | None
    """None: there is none, or its answer cannot be used."""
    fault: str
    """Why the candidate's answer cannot be used."""
    problem: str
    """Why the incumbent's cannot."""
    drift: Mapping[str, float] = MappingProxyType({})
    """Of the features of the policies, the larger one of each."""


def open_policy(artefact: Artefact, inventory: Inventory) -> Policy:
    """Open a verified policy; raises InputError if it does not fit this release."""
    # Imported here: they load onnxruntime, which the heuristic does not need.
    from models.policies.packing import features_sha256  # noqa: PLC0415
    from models.registry.session import open_session  # noqa: PLC0415

    if artefact.manifest.features_sha256 != features_sha256(artefact.manifest.kind):
        raise InputError(f"{artefact.name}: was trained on other features; train it again")
    reference, session = reference_of(artefact), open_session(artefact)

    def network(inputs: CommanderInputs, /) -> Answer:
        return session.run(inputs._asdict())

    return Policy(artefact.name, CommanderPolicy(inventory, network), reference)


def advise(
    deciding: Deciding[Policy],
    asked: Asked,
    now: Callable[[], float],
    most_s: float = MOST_SECONDS,
) -> Advice:
    """Ask the incumbent, and the candidate beside it."""
    domains = deciding.applied.size

    def ask(policy: Policy) -> Residual:
        return _full(policy.ask(*asked), domains)

    found, name, problem = first_answer((deciding.incumbent, deciding.spare), ask, now, most_s)
    incumbent = _full(neutral(1), domains) if found is None else found
    advice = Advice(incumbent, (name,) * domains, incumbent, None, "", problem)
    if deciding.candidate is None:
        return advice
    candidate, fault = answer_of(deciding.candidate, ask, now, most_s)
    if candidate is None:
        return advice._replace(fault=fault)
    applied = deciding.applied
    names = tuple(deciding.candidate.name if one else name for one in applied.tolist())
    residual = _mixed(incumbent, candidate, applied) if applied.any() else incumbent
    return advice._replace(residual=residual, names=names, candidate=candidate)


def sample_of(
    advice: Advice,
    decide: Callable[[Residual], CommanderDecision],
    report: Report,
    inventory: Inventory,
    weight: float,
) -> Sample:
    """What the candidate would decide beside the incumbent, estimated from this minute alone.

    `weight` is that of the highest priority's violations in the objective.
    """
    if advice.candidate is None:
        return Sample(advice.fault)
    ours, theirs = decide(advice.incumbent), decide(advice.candidate)
    return Sample(
        cost_incumbent=_cost(ours, report, inventory, weight),
        cost_candidate=_cost(theirs, report, inventory, weight),
        differs=_differs(ours, theirs),
    )


def beside_heuristic(
    decision: CommanderDecision,
    heuristic: CommanderDecision,
    report: Report,
    inventory: Inventory,
    weight: float,
) -> dict[str, float]:
    """What was decided beside what the heuristic alone would decide, for the transition."""
    return {
        "cost": _cost(decision, report, inventory, weight),
        "heuristic_cost": _cost(heuristic, report, inventory, weight),
        "differs": _differs(heuristic, decision),
    }


def over_cap(spend_per_hour: Sequence[float], cap: float, most: float) -> str:
    """Why policies are taken back: the sliding mean of the cost is too near to the spend cap."""
    if len(spend_per_hour) < _LEAST_MINUTES:
        return ""
    mean = sum(spend_per_hour) / len(spend_per_hour)
    if mean <= most * cap:
        return ""
    return f"the mean cost of {len(spend_per_hour)} min is {mean / cap:.1%} of the spend cap"


def _full(residual: Residual, domains: int) -> Residual:
    """With all columns of the Commander's part, so that two of them can be mixed.

    Raises ValueError where a field has another shape or range than the contract says.
    """
    fields: dict[str, Any] = {}
    lengths = {"rows": 1, "domains": domains}
    for port in OUTPUTS:
        shape = tuple(one if isinstance(one, int) else lengths[one] for one in port.shape)
        fields[port.name] = _columns(getattr(residual, port.name), shape, port)
    return residual._replace(**fields)


def _columns(value: F64, shape: tuple[int, ...], port: Tensor) -> F64:
    if value.ndim > 1 and value.shape[1] == 0:
        # A factor of 1 and a weight of 0 change nothing.
        return np.full(shape, 0.0 if port.low < 0 else 1.0)
    if value.shape != shape:
        raise ValueError(f"{port.name}: expected the shape {shape}, got {value.shape}")
    # The session and the guards have seen to this; a budget does not depend on that.
    if not ((value >= port.low) & (value <= port.high)).all():
        raise ValueError(f"{port.name}: not within {port.low:g} to {port.high:g}")
    return value


def _mixed(ours: Residual, theirs: Residual, applied: Mask) -> Residual:
    """The candidate's residual in the domains that it decides for."""
    fields = {
        name: np.where(applied, getattr(theirs, name), getattr(ours, name))
        for name in ("headroom", "urgency", "comfort")
    }
    fields |= {
        name: np.where(applied[:, None], getattr(theirs, name), getattr(ours, name))
        for name in ("pods", "nodes")
    }
    # Spare nodes are the whole cluster's.
    fields["spare"] = theirs.spare if applied.all() else ours.spare
    return ours._replace(**fields)


def _differs(one: CommanderDecision, other: CommanderDecision) -> float:
    """Share of the domains whose budgets differ noticeably."""
    before, after = (each.directive.budget.cores for each in (one, other))
    return float((np.abs(after - before) > _NOTICEABLE * np.maximum(before, 1.0)).mean())


def _cost(
    decision: CommanderDecision, report: Report, inventory: Inventory, weight: float
) -> float:
    """Cores of the nodes that are kept, and cores that the highest priority needs and lacks."""
    nodes = float((decision.keep[0] * inventory.pool_cpu).sum())
    highest = inventory.priority == inventory.priority.min()
    # What it needs now, not what it wants: a policy that wants more would seem to be worth it.
    lacks = np.maximum(0.0, report.essential - decision.directive.budget.cores)[0, highest]
    return nodes + weight * float(lacks.sum())


def with_policy(versions: dict[str, str], policy: str, level: Level) -> dict[str, str]:
    """The versions behind a budget, with the policy that advised it, if one may."""
    return versions | {MODEL: policy} if policy and level == Level.POLICY else versions

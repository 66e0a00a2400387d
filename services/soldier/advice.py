"""What promoted policies advise a Soldier, and what that would cost beside the incumbent.

Nothing that a policy answers reaches a plan unless all of it is within the range of its contract.
Otherwise the incumbent has advised already, or the heuristic decides alone.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F32, I32, MILLI, Mask
from models.cluster.plan import Plan
from models.control.report import BEARABLE
from models.control.residual import AppFactors
from models.inputs.errors import InputError
from models.policies.advisers import SoldierNetwork, in_blocks
from models.policies.features import reference_of
from models.policies.outputs import Answer
from models.policies.soldier_inputs import SoldierInputs
from models.registry.drift import Reference
from models.registry.load import Artefact
from models.registry.rollout import Sample
from services._kit.answering import answer_of, first_answer
from services._kit.following import Deciding

if TYPE_CHECKING:
    from models.registry.session import Session

MODEL: Final = "soldier"
"""Key of its promotions."""
MOST_SECONDS: Final = 0.05
"""Longest answer of a policy for one domain."""


class Policy(NamedTuple):
    """An open policy."""

    name: str
    """What plans carry."""
    network: SoldierNetwork
    """Raises if its answer cannot be used."""
    reference: Reference | None = None
    """Its features in training, if they were recorded."""


class Advice(NamedTuple):
    """What applies to a plan, and what is to be judged."""

    factors: AppFactors
    versions: dict[str, str]
    """Policies behind the plan; empty: the heuristic alone."""
    incumbent: AppFactors
    """What would apply without a candidate."""
    candidate: AppFactors | None
    """None: there is none, or its answer cannot be used."""
    fault: str
    """Why the candidate's answer cannot be used."""
    problem: str
    """Why the incumbent's cannot."""
    drift: Mapping[str, float] = MappingProxyType({})
    """Of the features of the policies, the larger one of each; empty but in the first tick of a
    minute."""


def open_policy(artefact: Artefact) -> Policy:
    """Open a verified policy; raises InputError if it does not fit this release."""
    # Imported here: they load onnxruntime, which the heuristic does not need.
    from models.policies.packing import features_sha256  # noqa: PLC0415
    from models.registry.session import open_session  # noqa: PLC0415

    if artefact.manifest.features_sha256 != features_sha256(artefact.manifest.kind):
        raise InputError(f"{artefact.name}: was trained on other features; train it again")
    reference, session = reference_of(artefact), open_session(artefact)

    return Policy(artefact.name, network_of(session), reference)


def network_of(session: "Session") -> SoldierNetwork:
    """The network as Soldiers ask it."""

    def network(inputs: SoldierInputs, /) -> Answer:
        # Copied: the session reuses its arrays, and a domain may take several blocks.
        return in_blocks(lambda block: _copied(session.run(block)), inputs)

    return network


def advise(
    deciding: Deciding[Policy],
    ask: Callable[[Policy], AppFactors],
    now: Callable[[], float],
    most_s: float,
) -> Advice:
    """Ask the incumbent, and the candidate beside it."""
    found, name, problem = first_answer((deciding.incumbent, deciding.spare), ask, now, most_s)
    alone = np.ones((1, deciding.applied.size), np.float32)
    incumbent = AppFactors(alone, alone) if found is None else found
    versions = {MODEL: name} if name else {}
    advice = Advice(incumbent, versions, incumbent, None, "", problem)
    if deciding.candidate is None:
        return advice
    candidate, fault = answer_of(deciding.candidate, ask, now, most_s)
    if candidate is None:
        return advice._replace(fault=fault)
    applied, name = deciding.applied, deciding.candidate.name
    if applied.all():
        versions = {MODEL: name}
    elif applied.any():
        versions = versions | {f"{MODEL}-canary": name}
    both = zip(candidate, incumbent, strict=True)
    factors = AppFactors(*(_mixed(applied, ours, theirs) for ours, theirs in both))
    return advice._replace(factors=factors, versions=versions, candidate=candidate)


def _mixed(applied: Mask, ours: F32, theirs: F32) -> F32:
    """Ours where it applies; a field without columns is 1 everywhere."""
    alone = np.ones((1, applied.size), np.float32)
    return np.where(applied, ours if ours.size else alone, theirs if theirs.size else alone)


def _copied(answer: Mapping[str, F32]) -> Answer:
    return {name: values.copy() for name, values in answer.items()}


def sample_of(
    advice: Advice, plan: Callable[[AppFactors], Plan], status: I32, load: F32, weight: float
) -> Sample:
    """What the candidate would plan beside the incumbent, estimated from this tick alone.

    `load` [1, A] are the pods that the present traffic fills, `weight` that of the domain's
    violations in the objective.
    """
    if advice.candidate is None:
        return Sample(advice.fault)
    ours, theirs = plan(advice.incumbent), plan(advice.candidate)
    return Sample(
        cost_incumbent=_cost(ours, status, load, weight),
        cost_candidate=_cost(theirs, status, load, weight),
        differs=_differs(ours, theirs, status),
    )


def beside_heuristic(
    planned: Plan, heuristic: Plan, status: I32, load: F32, weight: float
) -> dict[str, float]:
    """What was planned beside what the heuristic alone would plan, for the transition."""
    return {
        "cost": _cost(planned, status, load, weight),
        "heuristic_cost": _cost(heuristic, status, load, weight),
        "differs": _differs(heuristic, planned, status),
    }


def _differs(one: Plan, other: Plan, status: I32) -> float:
    """Share of the apps with another number of replicas."""
    active: Mask = status[0, rows.ACTIVE] == 1
    apart = (one.replicas[0] != other.replicas[0])[active]
    return float(apart.mean()) if apart.size else 0.0


def _cost(plan: Plan, status: I32, load: F32, weight: float) -> float:
    """Cores that are planned, and those that the present load needs and the plan lacks."""
    cores = plan.cpu[0] / MILLI * (status[0, rows.ACTIVE] == 1)
    # What it needs now, not what it wants: a policy that wants more would seem to be worth it.
    lacks = np.maximum(0.0, load[0] / BEARABLE - plan.replicas[0])
    return float((cores * (plan.replicas[0] + weight * lacks)).sum())

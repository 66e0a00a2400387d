"""What a policy would see of recorded frames, for the gate: no service has to run it for that.

The handler that would serve it reads the records once more, with a policy that notes what it is
asked and changes nothing.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import numpy as np

from models.cluster.arrays import F32
from models.cluster.description import Cluster
from models.control.tuned import tuned_parameters
from models.policies.advisers import CommanderPolicy
from models.policies.contract import SOLDIER_OUTPUTS
from models.policies.features import commander_features, reference_of, soldier_features
from models.policies.inputs import CommanderInputs
from models.policies.outputs import Answer
from models.policies.soldier_inputs import SoldierInputs
from models.registry.drift import Reference
from models.registry.load import Artefact
from models.registry.rollout import Rules
from schemas.app_declared import AppDeclared
from schemas.budget_granted import BudgetGranted
from schemas.demand_forecast import DemandForecast
from schemas.domain_observed import DomainObserved
from schemas.fields import Event, TickEvent
from schemas.model_promoted import ModelPromoted
from schemas.pool_observed import PoolObserved
from schemas.scale_planned import ScalePlanned
from services._kit.clock import ManualClock
from services._kit.handler import Handler, Service
from services._kit.inventory import DeclaredApps
from services._kit.memory import MemoryBus
from services._kit.models import LoadedModel, LoadModel
from services.admin.minutes import remembered_drift
from services.admin.reader import TopicReader
from services.commander import advice as commander
from services.commander.decide import CommanderHandler
from services.soldier import advice as soldier
from services.soldier.decide import SoldierHandler

_RECORDS: Final = 2000
"""Of each partition: the last hours, whatever the retention."""
LEAST_MINUTES: Final = 30
"""Fewer minutes are no evidence."""
_GRACE_S: Final = 1.0
_MINUTE_S: Final = 60
_PATIENT: Final = Rules(most_answer_seconds=1e6)
_KINDS: Final[Mapping[str, tuple[type[Event], ...]]] = {
    "commander-policy": (PoolObserved, DemandForecast, ScalePlanned),
    "soldier-policy": (AppDeclared, BudgetGranted, DomainObserved),
}
Minutes = list[dict[str, F32]]
"""Values of each feature, by minute."""


def recorded_drift(
    reader: TopicReader, cluster: Cluster, artefact: Artefact
) -> dict[str, float] | None:
    """How far the features of the recorded frames are from those of training; None: unknown."""
    if artefact.manifest.kind == "forecaster":
        return remembered_drift(reader, cluster, artefact)
    reference, kinds = reference_of(artefact), _KINDS[artefact.manifest.kind]
    if reference is None:
        return None
    # All apps: a declaration may be older than any frame.
    events = list[Event]()
    for kind in kinds:
        if kind is AppDeclared:
            events += reader.read_all(kind)
        else:
            records = reader.newest_records(kind, _RECORDS)
            events += [one.event for one in records if one.event is not None]
    return drift_of(events, cluster, artefact, reference)


def drift_of(
    events: Sequence[Event], cluster: Cluster, artefact: Artefact, reference: Reference
) -> dict[str, float] | None:
    """The largest drift of each feature among those who decide; None: too few minutes."""
    commands = artefact.manifest.kind == "commander-policy"
    seen = _of_commander(events, cluster) if commands else _of_soldiers(events, cluster)
    drifts = [
        reference.drift_of({name: np.concatenate([m[name].ravel() for m in minutes])
                            for name in minutes[0]})
        for minutes in seen
        if len(minutes) >= LEAST_MINUTES
    ]  # fmt: skip
    if not drifts:
        return None
    return {name: max(one[name] for one in drifts) for name in reference.names}


def _of_commander(events: Sequence[Event], cluster: Cluster) -> list[Minutes]:
    minutes: Minutes = []

    def note(inputs: CommanderInputs, /) -> Answer:
        minutes.append(commander_features(inputs))
        return {"headroom": np.ones(inputs.domain.shape[:2], np.float32)}

    inventory = DeclaredApps(cluster).inventory(())
    policy = commander.Policy("noting", CommanderPolicy(inventory, note))
    handler = CommanderHandler(cluster, tuned_parameters(), _GRACE_S, rules=_PATIENT)
    _replay(events, handler, policy, cluster)
    return [minutes]


def _of_soldiers(events: Sequence[Event], cluster: Cluster) -> list[Minutes]:
    """Domain by domain: a Soldier sees its own only."""
    found = []
    for at, domain in enumerate(cluster.domain_names):
        notes = _Notes(at)
        handler = SoldierHandler(cluster, tuned_parameters(), _GRACE_S, rules=_PATIENT)
        ours = [one for one in events if getattr(one, "domain", "") == domain]
        _replay(ours, handler, soldier.Policy("noting", notes), cluster)
        found.append(notes.minutes)
    return found


class _Notes:
    """A Soldier's policy that changes nothing."""

    def __init__(self, domain: int) -> None:
        self._domain = domain
        self.minutes: Minutes = []

    def __call__(self, inputs: SoldierInputs, /) -> Answer:
        self.minutes.append(
            soldier_features(SoldierInputs(*(one[0] for one in inputs)), self._domain)
        )
        shape = inputs.member.shape[:-1]
        return {one.name: np.ones(shape, np.float32) for one in SOLDIER_OUTPUTS}


class _Shelf:
    """Opens the one policy that there is."""

    def __init__(self, policy: Any) -> None:
        self._policy = policy

    async def carry_out(self, request: LoadModel) -> LoadedModel:
        return LoadedModel(request.ref, self._policy)


def _replay(events: Sequence[Event], handler: Handler[Any], policy: Any, cluster: Cluster) -> None:
    """Let a handler read the first tick of each minute, with this policy deciding."""
    bus = MemoryBus(ManualClock(0.0))
    bus.add(lambda: Service(handler, _Shelf(policy)))
    timed = [one for one in events if isinstance(one, TickEvent)]
    bus.publish(*(one for one in events if not isinstance(one, TickEvent)))
    bus.publish(
        ModelPromoted(
            # A return, which is obeyed at once.
            model=handler.name, version="noting", sha256="0" * 64, status="rolled-back",
            promoted_at="1970-01-01T00:00:00Z",
        )
    )  # fmt: skip
    per_minute = _MINUTE_S // cluster.tick_seconds
    firsts = sorted((one for one in timed if one.tick % per_minute == 0), key=lambda one: one.tick)
    before = None
    for tick, together in groupby(firsts, key=lambda one: one.tick):
        passed = per_minute if before is None else tick - before
        bus.advance(float(passed * cluster.tick_seconds))
        before = tick
        bus.publish(*together)
        bus.run()
    # What the last minute lacks does not come any more.
    bus.advance(float(_MINUTE_S))

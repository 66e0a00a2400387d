"""Following promoted models: what the registry orders, loading beside the bus, and the history.

Deciding stays pure: a handler asks for a version with a read, `ModelLoader` fetches, verifies and
opens it in a thread, and `models.registry.rollout` says what the result means. Open versions belong
to the process; which one decides is part of the state, so a restart opens the same ones again.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec.structs import asdict
from prometheus_client import Counter, Gauge

from models.inputs.errors import InputError
from models.registry.keys import Trust, trusted_keys
from models.registry.load import Artefact
from models.registry.manifest import Kind, is_digest
from models.registry.rollout import Change, Order, Ref, Rollout, Rules, share_of
from models.registry.store import Entry, Store, fetch, open_store
from schemas.demand_forecast import DemandForecast
from schemas.fields import Event
from schemas.model_judged import ModelJudged
from schemas.model_promoted import ModelPromoted
from schemas.transition_recorded import TransitionRecorded
from services._kit.errors import BadSettings, Refused
from services._kit.settings import KitSettings
from services._kit.telemetry import Telemetry

log = logging.getLogger(__name__)

LONGEST_LOAD_S: Final = 30.0
"""A tick may wait for a model for this long, and then does without it."""


class LoadModel(NamedTuple):
    """A read: open this version."""

    ref: Ref


class LoadedModel(NamedTuple):
    """Its result."""

    ref: Ref
    model: Any
    """What `open_model` returned; None if there is a problem."""
    problem: str = ""


class ModelLoader:
    """An executor that fetches, verifies and opens models."""

    def __init__(
        self, kind: Kind, store: Store | None, trust: Trust, open_model: Callable[[Artefact], Any]
    ) -> None:
        """`open_model` raises InputError for what it cannot open."""
        self._kind, self._store, self._trust, self._open = kind, store, trust, open_model

    async def carry_out(self, request: LoadModel) -> LoadedModel:
        """Open a version. In a thread: the process answers its broker meanwhile."""
        try:
            async with asyncio.timeout(LONGEST_LOAD_S):
                model = await asyncio.to_thread(self._load, request.ref)
        except TimeoutError:
            problem = f"the store did not answer within {LONGEST_LOAD_S:g} s"
        except InputError as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001  stores and onnxruntime raise what they like
            problem = f"failed: {' '.join(repr(error).split())[:200]}"
        else:
            log.info("%s is verified and loaded", request.ref.name)
            return LoadedModel(request.ref, model)
        log.warning("%s is not served: %s", request.ref.name, problem)
        return LoadedModel(request.ref, None, problem)

    def _load(self, ref: Ref) -> Any:
        if self._store is None:
            raise InputError("no store of models is configured (HIRL_MODEL_STORE)")
        artefact = fetch(self._store, Entry(self._kind, ref.sha256), self._trust)
        if artefact.name != ref.name:
            raise InputError(f"{ref.name} was promoted, the artefact is {artefact.name}")
        return self._open(artefact)


def loader(kit: KitSettings, kind: Kind, open_model: Callable[[Artefact], Any]) -> ModelLoader:
    """The loader of a service, from its settings."""
    try:
        keys = trusted_keys(Path(kit.model_keys)) if kit.model_keys else {}
        store = open_store(kit.model_store) if kit.model_store else None
    except InputError as error:
        raise BadSettings(str(error)) from None
    return ModelLoader(kind, store, Trust(keys), open_model)


def rules_of(kit: KitSettings, most_answer_seconds: float) -> Rules:
    """The rules of rollouts, from the settings."""
    return Rules(
        most_answer_seconds=most_answer_seconds,
        shadow_decisions=kit.rollout_shadow_decisions,
        stage_decisions=kit.rollout_stage_decisions,
    )


def amended(rules: Rules, event: ModelPromoted | None) -> Rules:
    """The rules of the settings with those that the newest record of the registry changes."""
    if event is None:
        return rules
    found = asdict(event.rules)
    # The gate is applied before anything is ordered, by the command.
    del found["gate"]
    weights = {n.upper(): w for n, w in asdict(found.pop("weights")).items() if w is not None}
    changes = {name: one for name, one in found.items() if one is not None}
    return replace(rules, **changes, weights=weights)


def order_of(event: ModelPromoted) -> Order:
    """What a record orders; raises Refused if it names no artefact that could exist."""
    if event.sha256 and not is_digest(event.sha256):
        raise Refused("bad-model", f"expected a SHA-256, got {event.sha256[:80]!r}")
    return Order(
        id=f"{event.promoted_at}/{event.status}/{event.sha256}",
        target=Ref(event.version, event.sha256) if event.sha256 else None,
        at_once=event.status == "rolled-back",
        unlock=event.unlock,
        hold_at=event.hold_at,
        locked=event.locked,
    )


def judged(
    model: str, scope: str, change: Change, rollout: Rollout, rules: Rules, tick: int, time: str
) -> ModelJudged:
    """A step of a rollout as an event; `rollout` is the one after it."""
    version, incumbent = change.version, rollout.incumbent
    locked = rollout.locked_until if rollout.locked_until > tick else None
    share = {"canary": share_of(rollout, rules), "serving": 1.0}.get(change.phase, 0.0)
    return ModelJudged(
        tick=max(0, tick),
        time=time,
        model=model,
        scope=scope,
        phase=change.phase,
        version="" if version is None else version.name,
        sha256="" if version is None else version.sha256,
        incumbent="" if incumbent is None else incumbent.name,
        share=share,
        reason=change.reason,
        evidence=dict(change.evidence),
        order=rollout.order,
        locked_until_tick=locked,
    )


_FORECASTER: Final = "forecaster"
_BESIDE: Final = {
    "cost_ratio": "Estimated cost of the last minute's decision over that of the heuristic's own",
    "differs_ratio": "Share of domains or apps that it decided otherwise than the heuristic",
}
"""Gauges of a policy that decides, by the end of their name."""


class RolloutMetrics:
    """Metrics of rollouts and of policies at work; called with each published event."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._steps = Counter(
            "hirl_model_steps_total",
            "Steps of rollouts, by what happened to the promoted version",
            ["model", "scope", "phase"],
            registry=telemetry.registry,
        )
        self._share = Gauge(
            "hirl_model_share_ratio",
            "Share that the newest promoted version decides for",
            ["model", "scope"],
            registry=telemetry.registry,
        )
        self._worse = Gauge(
            "hirl_model_cost_ratio",
            "Cost of a candidate over the incumbent's, by the same outcomes, at its last step",
            ["model", "scope"],
            registry=telemetry.registry,
        )
        self._differs = Gauge(
            "hirl_model_differs_ratio",
            "Share of a candidate's decisions that differ from the incumbent's, at its last step",
            ["model", "scope"],
            registry=telemetry.registry,
        )

        self._beside = {
            name: Gauge(f"hirl_policy_{name}", about, ["agent"], registry=telemetry.registry)
            for name, about in _BESIDE.items()
        }

        self._drift = Gauge(
            "hirl_model_drift_ratio",
            "Distance of a model's feature from its training, beyond that of any run of training",
            ["agent", "feature"],
            registry=telemetry.registry,
        )
        self._drifting: dict[str, set[str]] = {}

    def __call__(self, event: Event) -> None:
        """Record a step, or what a policy did beside the heuristic."""
        if isinstance(event, TransitionRecorded):
            self._record(event.agent, event.counterfactual)
            self._record_drift(event.agent, event.drift)
        if isinstance(event, DemandForecast):
            self._record_drift(_FORECASTER, event.drift)
        if not isinstance(event, ModelJudged):
            return
        labels, evidence = (event.model, event.scope), event.evidence
        self._steps.labels(*labels, event.phase).inc()
        self._share.labels(*labels).set(event.share)
        if "differs" in evidence:
            self._differs.labels(*labels).set(evidence["differs"])
        if evidence.get("cost_incumbent", 0.0) > 0 and "cost_candidate" in evidence:
            ratio = evidence["cost_candidate"] / evidence["cost_incumbent"]
            self._worse.labels(*labels).set(ratio)

    def _record(self, agent: str, beside: Mapping[str, float]) -> None:
        # Where the heuristic decides alone, both are what they are by definition: an old value
        # would look like a policy that is still at work.
        cost = beside.get("cost", 1.0), beside.get("heuristic_cost", 1.0)
        ratio = cost[0] / cost[1] if cost[1] > 0 else 1.0
        self._beside["cost_ratio"].labels(agent).set(ratio)
        self._beside["differs_ratio"].labels(agent).set(beside.get("differs", 0.0))

    def _record_drift(self, agent: str, drift: Mapping[str, float]) -> None:
        # As above: what is no longer watched is no longer shown.
        for feature in self._drifting.get(agent, set()) - drift.keys():
            self._drift.remove(agent, feature)
        for feature, value in drift.items():
            self._drift.labels(agent, feature).set(value)
        self._drifting[agent] = {*drift}

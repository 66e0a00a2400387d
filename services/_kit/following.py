"""A service's part of a rollout: which versions are open, and which of them may decide.

Open models belong to the process, the `Rollout` to the saved state. What a model is, how it is
asked and what its answers cost is the service's business.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from models.registry.drift import Drifts, Reference, Values, Watched, watch_both
from models.registry.rollout import (
    Change,
    Ref,
    Rollout,
    Rules,
    Sample,
    Stage,
    chosen,
    failed,
    given_up,
    loaded,
    observed,
    ordered,
    share_of,
)
from schemas.model_judged import ModelJudged
from schemas.model_promoted import ModelPromoted
from services._kit.models import LoadedModel, LoadModel, amended, judged, order_of

M = TypeVar("M")
_ENDS: Final = ("refused", "rolled-back")
_MOST_ORDERS: Final = 1000
"""Orders of one model that are kept for a service that was away: their topic keeps a month."""


class Deciding(NamedTuple, Generic[M]):
    """Which models decide in a tick."""

    incumbent: M | None
    """None: what ships."""
    spare: M | None
    """Decides where the incumbent cannot; None: what ships."""
    candidate: M | None
    """None: there is no candidate."""
    applied: NDArray[np.bool_]
    """Whether the candidate decides, by id."""


class Follower(Generic[M]):
    """Follows the promotions of one model in one scope."""

    def __init__(self, model: str, scope: str, rules: Rules, refusal: str = "") -> None:
        """`refusal` says why this process serves no model at all; empty: it does."""
        self._model, self._scope, self._rules, self._refusal = model, scope, rules, refusal
        self._wanted: ModelPromoted | None = None
        """The newest order; its rules are in force at once."""
        self._orders = deque[ModelPromoted](maxlen=_MOST_ORDERS)
        """The newest last."""
        self._open: dict[str, M] = {}
        self._unopened: set[str] = set()
        """Versions that are only kept as a spare, and could not be opened."""
        self._elsewhere: ModelJudged | None = None
        """The newest version that another scope could not serve."""

    @property
    def rules(self) -> Rules:
        """Those in force: the settings, and what the registry changed about them."""
        return amended(self._rules, self._wanted)

    def learn(self, event: ModelPromoted) -> None:
        """Take in an order; those about other models are for other services."""
        order_of(event)
        if event.model == self._model:
            self._wanted = event
            self._orders.append(event)

    def learn_judged(self, event: ModelJudged) -> None:
        """Take in what another scope of the service made of a version."""
        if event.model == self._model and event.scope != self._scope and event.phase in _ENDS:
            self._elsewhere = event

    def follow(
        self, rollout: Rollout, tick: int
    ) -> tuple[Rollout, list[ModelJudged], LoadModel | None]:
        """Obey the orders since the last one, and say which version has to be opened next."""
        if self._wanted is None:
            return rollout, [], self._missing(rollout, tick)
        events = list[ModelJudged]()
        for wanted in self._since(rollout.order):
            rollout, change = self._ordered(rollout, wanted, tick)
            events += self._events(change, rollout, tick)
        other = self._elsewhere
        # Of the same order: the version may have been promoted again since.
        if other is not None and other.order == rollout.order:
            reason = f"{other.scope}: {other.reason}"
            rollout, change = given_up(rollout, other.sha256, reason, tick, self.rules)
            events += self._events(change, rollout, tick)
        candidate = rollout.candidate
        if rollout.stage == Stage.LOADING and candidate and candidate.sha256 in self._open:
            # Open since it last was a candidate, or kept as a spare: nothing has to be fetched.
            rollout, change = loaded(rollout, candidate.sha256, "", tick, self.rules)
            events += self._events(change, rollout, tick)
        return rollout, events, self._missing(rollout, tick)

    def opened(
        self, result: LoadedModel, rollout: Rollout, tick: int
    ) -> tuple[Rollout, list[ModelJudged]]:
        """Take in a version that was opened, or why it could not be."""
        if result.problem:
            self._unopened.add(result.ref.sha256)
        else:
            needed = {ref.sha256 for ref in rollout.needed()}
            self._open = {v: model for v, model in self._open.items() if v in needed}
            self._open[result.ref.sha256] = result.model
        rollout, change = loaded(rollout, result.ref.sha256, result.problem, tick, self.rules)
        return rollout, self._events(change, rollout, tick)

    def deciding(self, rollout: Rollout, ids: Sequence[str]) -> Deciding[M]:
        """Which models decide, and for which of the ids the candidate does."""
        spare, candidate, share = self._of(rollout.previous), None, 0.0
        if rollout.stage in (Stage.SHADOW, Stage.CANARY):
            candidate, share = self._of(rollout.candidate), share_of(rollout, self.rules)
        version = "" if rollout.candidate is None else rollout.candidate.sha256
        applied = chosen(ids, version, share if candidate is not None else 0.0)
        return Deciding(self._of(rollout.incumbent) or spare, spare, candidate, applied)

    def judge(
        self, rollout: Rollout, sample: Sample | None, problem: str, tick: int, time: str
    ) -> tuple[Rollout, list[ModelJudged]]:
        """Judge a tick: the incumbent's problem, or a sample of the candidate beside it."""
        change = None
        if problem:
            # The spare decides in place of an incumbent that is not open.
            decides = (rollout.incumbent, rollout.previous)
            erred = next((ref.sha256 for ref in decides if ref and ref.sha256 in self._open), "")
            rollout, change = failed(rollout, erred, problem, tick, self.rules)
        elif sample is not None:
            rollout, change = observed(rollout, sample, tick, self.rules)
        return rollout, self._events(change, rollout, tick, time)

    def _since(self, order: str) -> Sequence[ModelPromoted]:
        """What was ordered after this order, oldest first; to a new scope only the newest counts.

        Each of them: a later order does not repeat a return, or the end of a lock.
        """
        newest = self._orders[-1]
        if order_of(newest).id == order:
            return ()
        if not order:
            return (newest,)
        found = list(self._orders)
        # What the topic has not kept is older than all that it has.
        known = [at for at, one in enumerate(found) if order_of(one).id == order]
        return found[known[-1] + 1 :] if known else found

    def _ordered(
        self, rollout: Rollout, wanted: ModelPromoted, tick: int
    ) -> tuple[Rollout, Change | None]:
        order = order_of(wanted)
        if not self._refusal:
            return ordered(rollout, order, tick)
        if order.id == rollout.order:
            return rollout, None
        return replace(rollout, order=order.id), Change("refused", order.target, self._refusal)

    def _missing(self, rollout: Rollout, tick: int) -> LoadModel | None:
        for ref in rollout.needed():
            waits = ref == rollout.incumbent and tick < rollout.retry_at
            # A spare is tried once, unless it is ordered anew.
            spare = ref == rollout.previous != rollout.candidate and ref.sha256 in self._unopened
            if ref.sha256 not in self._open and not waits and not spare:
                return LoadModel(ref)
        return None

    def _of(self, ref: Ref | None) -> M | None:
        return None if ref is None else self._open.get(ref.sha256)

    def _events(
        self, change: Change | None, rollout: Rollout, tick: int, time: str = ""
    ) -> list[ModelJudged]:
        if change is None:
            return []
        # Outside of ticks there is no event time but that of the order.
        time = time or (self._wanted.promoted_at if self._wanted else "")
        return [judged(self._model, self._scope, change, rollout, self.rules, tick, time)]


class Trained(Protocol):
    """A model that may say what its training saw."""

    @property
    def reference(self) -> Reference | None:
        """Its features in training, if they were recorded."""
        ...


T = TypeVar("T", bound=Trained)


def watch(
    deciding: Deciding[T], before: Watched, values: Callable[[], Values], minutes: int
) -> tuple[Watched, Drifts]:
    """Compare what both models see with the training of each, over the last minutes."""
    incumbent, candidate = (
        None if one is None else one.reference for one in (deciding.incumbent, deciding.candidate)
    )
    return watch_both(before, incumbent, candidate, values, minutes)

"""A checker of small models: visits every reachable state, breadth first.

States are hashable values. A model names the steps that can happen next, what must never be wrong
in any state, and how a state goes on when no more faults occur. Breadth first, so no shorter way
leads to a counterexample.
"""

import logging
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from contextlib import closing
from time import process_time
from typing import Generic, NamedTuple, Protocol, TypeVar

S = TypeVar("S", bound=Hashable)

log = logging.getLogger(__name__)


class Model(Protocol[S]):
    """What is explored."""

    def start(self) -> S:
        """The first state."""

    def steps(self, state: S) -> Iterable[tuple[str, S]]:
        """Everything that can happen next, faults included, with a name."""

    def wrong(self, state: S) -> str:
        """What must never be and is; empty if nothing."""

    def calm_step(self, state: S) -> tuple[str, S] | None:
        """What happens next if no more faults occur; None when everything is done."""

    def wrong_at_rest(self, state: S) -> str:
        """What is wrong although everything is done; empty if nothing."""

    def seen(self, state: S) -> Iterable[str]:
        """What a state at rest shows, to prove that the exploration is not vacuous."""


class Counterexample(NamedTuple):
    """What is wrong, and the shortest way there."""

    wrong: str
    trace: tuple[str, ...]

    def __str__(self) -> str:
        steps = "\n".join(f"  {number:2}. {step}" for number, step in enumerate(self.trace, 1))
        return f"{self.wrong}, after {len(self.trace)} steps:\n{steps}"


class Explored(NamedTuple):
    """What was visited."""

    states: int
    transitions: int
    depth: int
    """Steps to the state that is farthest from the start."""
    seconds: float
    """Of one core."""
    ends: Counter[str]
    """What the states at rest show, and in how many of them."""
    counterexample: Counterexample | None
    complete: bool
    """Whether every reachable state was visited."""

    def __str__(self) -> str:
        extent = "all" if self.complete else "not all"
        return (
            f"{self.states:,} states ({extent}), {self.transitions:,} transitions, "
            f"depth {self.depth}, {self.seconds:.1f} s"
        )


class ClosableModel(Model[S], Protocol[S]):
    """A model that holds something to give back."""

    def close(self) -> None:
        """Give it back."""


def explore_and_close(model: ClosableModel[S]) -> Explored:
    """Explore a model, log what was visited, and close it."""
    with closing(model):
        found = explore(model)
    log.info("%s", found)
    return found


def explore(model: Model[S], most_states: int = 10_000_000) -> Explored:
    """Visit the states one by one until something is wrong or nothing is left."""
    return _Exploration(model).run(most_states)


class _Exploration(Generic[S]):
    def __init__(self, model: Model[S]) -> None:
        self._model = model
        self._parents: dict[S, tuple[S, str] | None] = {}
        self._rested: dict[S, str] = {}
        """What is wrong at the end of the calm way from a state."""
        self._ends: Counter[str] = Counter()
        self._transitions = self._depth = 0
        self._found: Counterexample | None = None

    def run(self, most_states: int) -> Explored:
        began = process_time()
        start = self._model.start()
        self._parents[start] = None
        layer = [start]
        while layer and self._found is None and len(self._parents) < most_states:
            layer = list(self._next_layer(layer))
            self._depth += bool(layer)
        return Explored(
            states=len(self._parents),
            transitions=self._transitions,
            depth=self._depth,
            seconds=process_time() - began,
            ends=self._ends,
            counterexample=self._found,
            complete=not layer and self._found is None,
        )

    def _next_layer(self, layer: list[S]) -> Iterator[S]:
        for state in layer:
            problem = self._model.wrong(state)
            if not problem and (problem := self._wrong_in_the_end(state)):
                calm = self._calm_way(state)
                self._found = Counterexample(problem, (*self._trace(state), *calm))
                return
            if problem:
                self._found = Counterexample(problem, self._trace(state))
                return
            for name, after in self._model.steps(state):
                self._transitions += 1
                if after not in self._parents:
                    self._parents[after] = state, name
                    yield after

    def _wrong_in_the_end(self, state: S) -> str:
        """Follow the calm way; most of it is known from the states visited before."""
        passed: dict[S, None] = {}
        at = state
        while at not in self._rested:
            passed[at] = None
            problem = self._model.wrong(at)
            step = None if problem else self._model.calm_step(at)
            if step is None:
                self._rested[at] = problem or self._model.wrong_at_rest(at)
                self._ends.update(self._model.seen(at))
            elif step[1] in passed:
                self._rested[at] = "it never comes to rest"
            else:
                at = step[1]
        for one in passed:
            self._rested[one] = self._rested[at]
        return self._rested[at]

    def _calm_way(self, state: S) -> list[str]:
        names, passed = ["no more faults from here on:"], {state}
        while not self._model.wrong(state) and (step := self._model.calm_step(state)):
            name, state = step
            names.append(name)
            if state in passed:
                break
            passed.add(state)
        return names

    def _trace(self, state: S) -> tuple[str, ...]:
        names = []
        while (parent := self._parents[state]) is not None:
            state, name = parent
            names.append(name)
        return tuple(reversed(names))

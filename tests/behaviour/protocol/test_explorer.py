"""The checker visits every state, finds the shortest way, and notices what never ends."""

from collections.abc import Iterator
from dataclasses import dataclass

from tests.behaviour.protocol.explorer import explore


@dataclass(frozen=True)
class Counter:
    """Counts up to 9 by 1 or by 3; calm, it goes on by 1."""

    forbidden: int = -1
    last: int = 9
    circles: bool = False

    def start(self) -> int:
        return 0

    def steps(self, state: int) -> Iterator[tuple[str, int]]:
        for step in (1, 3):
            if state + step <= 9:
                yield f"+{step}", state + step

    def wrong(self, state: int) -> str:
        return "forbidden" if state == self.forbidden else ""

    def calm_step(self, state: int) -> tuple[str, int] | None:
        if state == 9:
            return ("back", 0) if self.circles else None
        return "calm +1", state + 1

    def wrong_at_rest(self, state: int) -> str:
        return "" if state == self.last else f"it ends at {state}"

    def seen(self, state: int) -> Iterator[str]:
        yield str(state)


def test_every_state_is_visited_once() -> None:
    explored = explore(Counter())
    assert explored.counterexample is None
    assert (explored.states, explored.transitions, explored.complete) == (10, 16, True)
    assert explored.ends == {"9": 1}
    assert str(explored).startswith("10 states (all), 16 transitions, depth 4,")


def test_the_shortest_path_to_a_violation_is_found() -> None:
    found = explore(Counter(forbidden=7)).counterexample
    assert found is not None
    # The calm way from the start leads there, too: no fault is needed.
    assert found.trace == ("no more faults from here on:", *["calm +1"] * 7)


def test_a_violation_in_a_final_state_is_found() -> None:
    found = explore(Counter(last=8)).counterexample
    assert found is not None
    assert found.wrong == "it ends at 9"


def test_a_path_that_never_ends_is_a_violation() -> None:
    found = explore(Counter(circles=True)).counterexample
    assert found is not None
    assert found.wrong == "it never comes to rest"


def test_an_exploration_that_is_cut_off_says_so() -> None:
    explored = explore(Counter(), most_states=3)
    assert not explored.complete
    assert "not all" in str(explored)

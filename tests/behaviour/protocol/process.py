"""A process in a world: what it knows, has taken and is doing."""

from typing import Any, NamedTuple

from tests.behaviour.protocol.turns import (
    Answer,
    Died,
    Known,
    Memory,
    Point,
    Position,
    Processes,
    Turn,
    Waits,
)


class Process(NamedTuple):
    """A process at some moment."""

    known: Known
    read: tuple[int, ...] = ()
    """Next offset by input topic."""
    memory: Memory[Any] | None = None
    """Before its turn; None until it has started."""
    turn: Turn | None = None
    point: Point | None = None
    """What the turn waits for."""
    in_flight: frozenset[Position] = frozenset()
    """Delivered, and not acknowledged."""
    woken: bool = False
    """Whether it learned something since it was woken last."""
    dead_letters: int = 0
    problem: str = ""

    def is_due(self, now: float) -> bool:
        """Whether its timer has run out."""
        due = None if self.memory is None else self.memory.due
        return due is not None and due <= now

    def committable(self, topics: tuple[str, ...]) -> tuple[int, ...]:
        """Offsets up to which everything is acknowledged."""
        return tuple(
            min((at for name, at in self.in_flight if name == topic), default=read)
            for topic, read in zip(topics, self.read, strict=True)
        )


def begin(processes: Processes[Any], process: Process, turn: Turn) -> Process:
    """Start a turn, up to what it waits for first."""
    return _resolved(processes, process._replace(turn=turn, point=None))


def resume(processes: Processes[Any], process: Process, value: Any, now: float) -> Process:
    """Go on with an answer, up to what the turn waits for next."""
    turn = process.turn
    assert turn is not None
    answers = (*turn.answers, Answer(value, now, process.known))
    return _resolved(processes, process._replace(turn=turn._replace(answers=answers)))


def _resolved(processes: Processes[Any], process: Process) -> Process:
    assert process.turn is not None
    result = processes.run(process.memory, process.turn)
    if isinstance(result, Died):
        return process._replace(problem=result.problem, point=None)
    held = process.in_flight - result.acknowledged
    if isinstance(result, Waits):
        return process._replace(point=result.point, in_flight=held)
    return process._replace(
        memory=result.memory,
        turn=None,
        point=None,
        in_flight=held,
        dead_letters=process.dead_letters + result.dead_letters,
    )

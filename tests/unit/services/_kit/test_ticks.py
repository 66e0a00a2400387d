import hashlib

import msgspec
import numpy as np

from models.control.parameters import Parts
from models.control.tuned import tuned_parameters
from services._kit.ticks import POLICY, TickBuffer

BOTH = frozenset({"a", "b"})
GRACE_S = 2.0
DECIDED_BY = ("heuristic/6", "12482532a9c7")
"""A version of the policy and the digest of the numbers it decides with."""


def buffer(*events: tuple[int, str, float], closed: int = -1) -> TickBuffer[str]:
    """A buffer with an event of each tick and name, received at a moment."""
    filled: TickBuffer[str] = TickBuffer(closed)
    for tick, name, now in events:
        filled = filled.with_event(tick, name, f"{tick}{name}", now)
    return filled


def test_a_tick_is_ready_when_all_of_its_events_have_arrived() -> None:
    assert buffer((1, "a", 0.0)).ready(BOTH, 0.0, None, 1) is None
    complete = buffer((1, "a", 0.0), (1, "b", 0.0))
    assert complete.ready(BOTH, 0.0, None, 1) == 1
    events, rest = complete.close(1)
    assert events == {"a": "1a", "b": "1b"}
    assert (rest.closed, rest.empty) == (1, True)


def test_a_tick_closes_when_nothing_more_of_it_arrived_for_the_grace_period() -> None:
    waiting = buffer((1, "a", 10.0), (1, "c", 11.0))
    assert waiting.due(GRACE_S, 1) == 13.0
    assert waiting.ready(BOTH, 12.9, GRACE_S, 1) is None
    assert waiting.ready(BOTH, 13.0, GRACE_S, 1) == 1


def test_without_a_grace_period_an_incomplete_tick_and_later_ones_wait_forever() -> None:
    waiting = buffer((1, "a", 0.0), (2, "a", 0.0), (2, "b", 0.0))
    assert waiting.ready(BOTH, 1e9, None, 2) is None
    assert waiting.due(None, 2) is None


def test_late_and_duplicate_events_change_nothing() -> None:
    waiting = buffer((6, "a", 0.0), closed=5)
    assert waiting.with_event(5, "a", "late", 1.0) is waiting
    assert waiting.with_event(6, "a", "again", 1.0) is waiting
    assert waiting.close(6)[0] == {"a": "6a"}


def test_other_parameters_are_another_version_of_the_policy() -> None:
    parameters, priority = tuned_parameters(), np.arange(4, dtype=np.int32)
    # What the hand-chosen numbers come to as well: they decide like the tuned ones.
    derived = parameters.foreseen_level(priority), *parameters.damping(priority, Parts(), 10)
    in_force = parameters._asdict(), [np.asarray(part).tolist() for part in derived]
    digest = hashlib.sha256(msgspec.json.encode(in_force)).hexdigest()[:12]
    assert (POLICY, digest) == DECIDED_BY, (
        "`tuned.json` or `parameters.py` of models/control decide by other parameters: raise the "
        "version in POLICY (services/_kit/ticks.py), so that decision ids and the audit tell both "
        f"apart, and write it into DECIDED_BY of this file with the digest {digest}"
    )

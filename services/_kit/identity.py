"""How a decision is named: the same whenever it is made again."""

from typing import Final

POLICY: Final = "heuristic/1"
"""Name and version of what decides in the Soldiers and in the Commander."""


def decision_id(about: str, tick: int, epoch: int, policy: str = POLICY) -> str:
    """Of what was decided about a domain or a pool in a tick, under the budget of an epoch."""
    return f"{about}/{tick}/{epoch}/{policy}"

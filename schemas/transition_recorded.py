"""One step of an agent, for retraining: what it saw, did, got, and saw next."""

from typing import Annotated, Literal

from schemas.fields import Name, Tick, TickEvent, about


class TransitionRecorded(TickEvent, frozen=True, kw_only=True):
    """Names are in the schema of the agent, so that old records can be read by new trainers."""

    agent: Annotated[Name, about("`commander`, or `soldier/` and its domain")]
    kind: Literal["commander", "soldier"]
    next_tick: Annotated[Tick, about("at which the next state was seen")]
    state: dict[str, float]
    action: dict[str, float]
    reward: Annotated[float, about("minus what the step cost, in units of the objective J")]
    next_state: dict[str, float]
    policy: str = ""
    scenario: str = ""

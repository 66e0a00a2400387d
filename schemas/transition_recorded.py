"""One step of an agent, for retraining: what it saw, did, got, and saw next."""

from typing import Annotated, Literal

from schemas.fields import Name, Tick, TickEvent, about


class TransitionRecorded(TickEvent, frozen=True, kw_only=True):
    """Names are in the schema of the agent, so that old records can be read by new trainers."""

    agent: Annotated[Name, about("`commander`, or `soldier/` and its domain")]
    kind: Annotated[Literal["commander", "soldier"], about("whose schema the names follow")]
    next_tick: Annotated[Tick, about("at which the next state was seen")]
    state: Annotated[dict[str, float], about("what the agent saw, by feature")]
    action: Annotated[dict[str, float], about("what it did")]
    reward: Annotated[float, about("minus what the step cost", "objective J")]
    next_state: Annotated[dict[str, float], about("what it saw next")]
    policy: Annotated[str, about("name and version of what decided")] = ""

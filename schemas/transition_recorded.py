"""One step of the Commander or a Soldier for retraining: state, action, reward, next state.

`agent` has its meaning in reinforcement learning; the agents of `samples_signed.py` are others.
"""

from typing import Annotated, Literal

from schemas.fields import Name, Tick, TickEvent, about


class TransitionRecorded(TickEvent, frozen=True, kw_only=True):
    """A transition. States and actions are named, so that new trainers can read old records."""

    agent: Annotated[Name, about("`commander`, or `soldier/` and its domain.")]
    kind: Annotated[Literal["commander", "soldier"], about("Kind of the agent.")]
    next_tick: Annotated[Tick, about("Tick of `next_state`.")]
    state: Annotated[dict[str, float], about("State the agent decided on, by feature name.")]
    action: Annotated[dict[str, float], about("Action of the agent, by name.")]
    reward: Annotated[float, about("Negative cost of the step.", "objective J")]
    next_state: Annotated[dict[str, float], about("State after the step, by feature name.")]
    policy: Annotated[str, about("Name and version of the policy that decided.")] = ""
    counterfactual: Annotated[
        dict[str, float],
        about(
            "The action beside the heuristic's own for the same state: the estimates `cost` and "
            "`heuristic_cost`, and `differs`, the share of domains or apps that it decided "
            "otherwise. Empty where no promoted policy took part."
        ),
    ] = {}
    drift: Annotated[
        dict[str, float],
        about(
            "How far each feature of a promoted policy is from its training, beyond the distance "
            "of any run of training, over the last window; 0: no drift. While another policy is "
            "tried beside it, the larger one of both. Empty where none is watched, or not for a "
            "whole window."
        ),
    ] = {}

"""CommanderEnv: one decision per minute, about every domain at once."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from models.compare.families import HEURISTIC, family_of
from models.environments.environment import Environment
from models.environments.heuristic_adapters import CommanderAdapter, HeuristicAdapterState
from models.sim.config.physics import SimCluster
from models.sim.config.scenario import Scenario
from models.sim.results.summary import Result
from models.sim.world import World

_PER_APP: Final = 10.0
"""Scale of the reward per app: J per app and minute is of the order of 0.1."""


class CommanderEnv(Environment[HeuristicAdapterState]):
    """A residual on the tuned heuristic with a forecaster.

    Observation: normalised features of the domains, pools and cluster, one after the other.
    Action: for each domain a factor on 1 + headroom, then for each domain one on the urgency;
    zeros are the heuristic itself.
    Reward: -(J after the minute - J before it) x `reward_scale`, so that the rewards of an episode
    sum to -J of its summary. When `paired`, the plain heuristic runs beside it on the same seed,
    and its J of the minute is added: what the seed costs cancels out.
    """

    def __init__(
        self,
        scenarios: Sequence[Scenario | str | Path] | None = None,
        cluster: SimCluster | None = None,
        forecast: str = "calendar",
        *,
        paired: bool = False,
    ) -> None:
        scheduling = family_of(HEURISTIC).scheduling
        super().__init__(scenarios, cluster, forecast, scheduling, copies=2 if paired else 1)
        self.reward_scale = _PER_APP / self._cluster.apps
        self._before = 0.0

    def _adapter_of(self, world: World) -> CommanderAdapter:
        return CommanderAdapter(world)

    def _begin(self, world: World) -> None:  # noqa: ARG002  the interface
        self._before = 0.0

    def _reward(self, results: list[Result]) -> float:
        """The second environment, if any, is the plain heuristic."""
        own, *plain = (result.objective for result in results)
        # What the seed costs anyway cancels out. In a prototype, policies that were trained without
        # the pair ended 6 to 12 % worse.
        cost = own - sum(plain)
        reward = (self._before - cost) * self.reward_scale
        self._before = cost
        return reward

"""How a run went: the same figures that `hirl simulate` prints, counted while it goes on."""

from typing import Final

import msgspec
import numpy as np

from models.cluster.observation import Observation
from models.cluster.plan import Plan
from models.compare.run import blind_decreases, without_sample
from models.sim.results.failures import FailureWatch, setting_of
from models.sim.results.findings import Finding
from models.sim.results.recording import Recorder
from models.sim.results.summary import Decisions, Result, summarise
from models.sim.world import World

CONTROLLER: Final = "services"
"""Under whose name a run that is controlled from outside is entered."""


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a run so far."""

    tick: int
    total_ticks: int
    finished: bool
    world_hash: str
    rows: list[Result]
    failures: list[Finding]


class Score:
    """Watches a world that somebody else advances."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._recorder, self._watch = Recorder(world), FailureWatch(setting_of(world))
        self._decreases = np.zeros(world.environments, np.int64)

    def before_step(self, seen: Observation, plan: Plan) -> None:
        """Count what is about to be done without a sample; nothing of the warm-up counts."""
        if self._world.tick >= self._world.timeline.warmup_ticks:
            blind = without_sample(self._world, seen)
            self._decreases += blind_decreases(seen, plan, blind)

    def after_step(self) -> None:
        """Record the tick that has just ended."""
        self._recorder(self._world)
        self._watch.look(self._recorder.recording, self._world.tick - 1)

    def results(self) -> Results:
        """Overruns are not among them: budgets are known to the controllers alone."""
        world = self._world
        decisions = Decisions(missing_data_decreases=self._decreases.copy())
        return Results(
            tick=world.tick,
            total_ticks=world.timeline.total_ticks,
            finished=world.tick >= world.timeline.total_ticks,
            world_hash=world.hash,
            rows=summarise(world, CONTROLLER, decisions),
            failures=self._watch.findings(self._recorder.recording),
        )

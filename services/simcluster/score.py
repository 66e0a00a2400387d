"""Results and cost of a run, counted while it goes on; the figures are those of `hirl simulate`."""

from typing import Final

import msgspec
import numpy as np

from models.cluster.arrays import F64
from models.cluster.observation import Observation, Pipeline
from models.cluster.plan import Plan
from models.compare.run import missing_data_decreases, without_sample
from models.sim.accounting import RESERVED
from models.sim.results.failures import FailureWatch, setting_of
from models.sim.results.findings import Finding
from models.sim.results.recording import Recorder
from models.sim.results.summary import Decisions, Result, summarise
from models.sim.world import World

_HOUR_S: Final = 3600.0
CONTROLLER: Final = "services"
"""Controller name of a run that is controlled from outside."""


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """Results so far."""

    tick: int
    total_ticks: int
    finished: bool
    world_hash: str
    rows: list[Result]
    failures: list[Finding]


class Score:
    """Records a world that is advanced from outside."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._recorder, self._watch = Recorder(world), FailureWatch(setting_of(world))
        self._decreases = np.zeros(world.environments, np.int64)

    def before_step(self, observed: Observation, plan: Plan) -> None:
        """Count decreases of apps without a sample; the warm-up does not count."""
        if self._world.tick >= self._world.timeline.warmup_ticks:
            # Missing data may hold or raise an app, never lower it: every run counts violations.
            blind = without_sample(self._world, observed, Pipeline.OURS)
            self._decreases += missing_data_decreases(observed, plan, blind)

    def after_step(self) -> None:
        """Record the tick that has just ended."""
        self._recorder(self._world)
        self._watch.look(self._recorder.recording, self._world.tick - 1)

    def results(self) -> Results:
        """Results without overruns: only the controllers know the budgets."""
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


class Bill:
    """Cost of the nodes of each pool since tick 0; the world's accounts begin after the warm-up."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.spent: F64 = np.zeros(world.layout.pools)
        """[P] money."""

    def add_tick(self) -> None:
        """Add the tick that has just ended; reserved nodes cost money even if they are not used."""
        rules = self._world.given.rules
        nodes = self._world.state.pool_market[0].astype(np.float64)
        nodes[:, RESERVED] = np.maximum(nodes[:, RESERVED], rules.pools["reserved"])
        hours = self._world.cluster.tick_seconds / _HOUR_S
        self.spent = self.spent + (nodes * rules.pool_price).sum(axis=1) * hours

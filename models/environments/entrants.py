"""One line enters a policy in the benchmark.

In a module of the user's own, `mine = commander_entrant(PPO.load("mine.zip"))`, and then
`hirl bench control --controllers hpa,my_module:mine`. The policy takes over when the warm-up is
over, as in training.
"""

from functools import partial

from models.compare.catalogue import Entrant
from models.compare.families import HEURISTIC, family_of
from models.environments.app_seat import AppSeat, AppState
from models.environments.commander_seat import CommanderSeat
from models.environments.seat import Policy
from models.environments.seated import Seated, SeatedUnderBudgets
from models.environments.soldier_seat import SoldierSeat
from models.forecaster.simulated.catalogue import forecaster_of
from models.sim.world import World


def commander_entrant(policy: Policy, forecast: str = "calendar") -> Entrant:
    """A policy that was trained in a CommanderEnv with that forecaster."""
    scheduling = family_of(HEURISTIC).scheduling
    return Entrant(partial(_commander, policy), forecaster_of(forecast), scheduling)


def soldier_entrant(policy: Policy, domain: str, forecast: str = "calendar") -> Entrant:
    """A policy that was trained in a SoldierEnv of that domain."""
    scheduling = family_of(HEURISTIC).scheduling
    return Entrant(partial(_soldier, policy, domain), forecaster_of(forecast), scheduling)


def app_entrant(policy: Policy, app: int) -> Entrant:
    """A policy that was trained in an AppEnv of that app; the others have their HPAs."""
    return Entrant(partial(_app, policy, app))


def _commander(policy: Policy, world: World) -> SeatedUnderBudgets:
    return SeatedUnderBudgets(CommanderSeat(world), policy, world.timeline.warmup_ticks)


def _soldier(policy: Policy, domain: str, world: World) -> SeatedUnderBudgets:
    return SeatedUnderBudgets(SoldierSeat(world, domain), policy, world.timeline.warmup_ticks)


def _app(policy: Policy, app: int, world: World) -> Seated[AppState]:
    return Seated(AppSeat(world, app), policy, world.timeline.warmup_ticks)

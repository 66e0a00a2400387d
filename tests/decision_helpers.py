"""What the in-process run decides, in the shape of events, to hold the services against it."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from models.cluster import rows
from models.cluster.plan import Plan, Reason
from models.compare.catalogue import Contest, enter
from models.forecaster.port import Forecast
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import load_scenario
from schemas.budget_granted import BudgetGranted
from schemas.capacity_requested import CapacityRequested
from schemas.demand_forecast import DemandForecast
from schemas.fields import Event
from schemas.scale_planned import ScalePlanned
from services.simcluster import events

SCENARIO = "flash-sale-20-min-early"
CONTROLLER = "heuristic:calendar"
_PLAN = ("replicas", "cpu", "memory")
_BUDGET = {
    "share": "share",
    "cores": "cores",
    "memory_gib": "memory",
    "overdraft_cores": "overdraft",
    "floor_cores": "floor",
    "urgency": "urgency",
    "headroom": "headroom",
}
"""Fields of the event that differ by domain, and those of the budget."""

Values = dict[str, Any]


class Decided(NamedTuple):
    """Every decision of a tick, by what it is about: plan/payments, budget/payments, ..."""

    tick: int
    values: dict[str, Values]


def contest(
    apps: int, seed: int, scenario: str = SCENARIO, controller: str = CONTROLLER
) -> Contest:
    """The same world and controller for whoever asks."""
    cluster = with_apps(load_sim_cluster(), apps)
    return enter(controller, cluster, load_scenario(scenario, cluster), [seed])


def decided_in_process(contest: Contest) -> Iterator[Decided]:
    """Play the world in this process, tick by tick."""
    world, controller, forecaster = contest
    assert forecaster is not None
    first = world.observe(controller.pipeline)
    state, foreseen = controller.start(first), forecaster.start(first)
    names = events.app_names(world)
    while world.tick < world.timeline.total_ticks:
        tick, seen = world.tick, world.observe(controller.pipeline)
        forecast, foreseen = forecaster.step(seen, foreseen)
        before = state.decision.directive.budget.epoch[0]
        plan, state = controller.step(seen, forecast, state)
        values = _planned(contest, plan, names)
        if state.decision.directive.budget.epoch[0] != before:
            values |= _ordered(contest, state.decision) | _foreseen(contest, forecast)
        yield Decided(tick, values)
        world.step(plan)


def decided_by_events(found: list[Event]) -> dict[int, dict[str, Values]]:
    """The same from what services published, by tick."""
    ticks: dict[int, dict[str, Values]] = {}
    for event in found:
        match event:
            case ScalePlanned():
                ticks.setdefault(event.tick, {})[f"plan/{event.domain}"] = {
                    "apps": event.apps,
                    "replicas": event.replicas,
                    "cpu": event.cpu_request,
                    "memory": event.memory_request,
                    "reasons": event.reasons,
                }
            case BudgetGranted():
                once = ("epoch", "reserve_share", "growth", "release_cores", "valid_until_tick")
                own: Values = {name: getattr(event, name) for name in (*_BUDGET, *once)}
                own["pool_cores"] = event.pool_cores
                ticks.setdefault(event.tick, {})[f"budget/{event.domain}"] = own
            case CapacityRequested():
                nodes = event.nodes
                ticks.setdefault(event.tick, {})[f"nodes/{event.pool}"] = {
                    "nodes": [nodes.critical, nodes.essential, nodes.comfort, nodes.spare],
                    "min_nodes": event.min_nodes,
                }
            case DemandForecast():
                ticks.setdefault(event.tick, {})[f"forecast/{event.domain}"] = {
                    "rps": event.rps,
                    "peak": event.peak_rps,
                    "valid_until_tick": event.valid_until_tick,
                }
            case _:
                pass
    return ticks


def first_difference(expected: dict[str, Values], found: dict[str, Values]) -> str | None:
    """Where two ticks differ first, to the last bit; None when they do not."""
    for about, values in expected.items():
        if about not in found:
            return f"{about}: nothing was decided"
        for name, value in values.items():
            if found[about][name] != value:
                return f"{about}.{name}: expected {value}, got {found[about][name]}"
    return None


def _planned(contest: Contest, plan: Plan, names: tuple[str, ...]) -> dict[str, Values]:
    status, found = contest.world.state.status[0], {}
    for place, domain in enumerate(contest.world.cluster.domain_names):
        apps = ((status[rows.DOMAIN] == place) & (status[rows.ACTIVE] == 1)).nonzero()[0]
        found[f"plan/{domain}"] = {
            "apps": [names[app] for app in apps],
            **{name: getattr(plan, name)[0, apps].tolist() for name in _PLAN},
            "reasons": [
                Reason(code).name.lower().replace("_", "-") for code in plan.reason[0, apps]
            ],
        }
    return found


def _ordered(contest: Contest, orders: Any) -> dict[str, Values]:
    cluster, budget, found = contest.world.cluster, orders.directive.budget, {}
    for place, domain in enumerate(cluster.domain_names):
        cores = zip(cluster.pool_names, budget.pool_cores[0, place].tolist(), strict=True)
        found[f"budget/{domain}"] = {
            **{name: float(getattr(budget, of)[0, place]) for name, of in _BUDGET.items()},
            "epoch": int(budget.epoch[0]),
            "reserve_share": float(budget.reserve[0]),
            "growth": float(orders.directive.growth[0, place]),
            "release_cores": float(orders.directive.release[0, place]),
            "valid_until_tick": int(budget.valid_until_tick[0]),
            "pool_cores": {name: value for name, value in cores if value > 0},
        }
    for place, pool in enumerate(cluster.pool_names):
        asked, keep = orders.nodes[0, place].tolist(), int(orders.keep[0, place])
        found[f"nodes/{pool}"] = {"nodes": asked, "min_nodes": keep}
    return found


def _foreseen(contest: Contest, forecast: Forecast) -> dict[str, Values]:
    return {
        f"forecast/{domain}": {
            "rps": forecast.domain[0, place].tolist(),
            "peak": forecast.domain_peak[0, place].tolist(),
            "valid_until_tick": int(forecast.valid_until_tick[0]),
        }
        for place, domain in enumerate(contest.world.cluster.domain_names)
    }

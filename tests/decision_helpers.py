"""Decisions of the in-process run in the form of events, to compare the services with."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from models.cluster import rows
from models.cluster.plan import Plan, Reason
from models.compare.breakers import Breakers
from models.compare.catalogue import Match, enter
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
    "insured_headroom": "insured",
}
"""Field of the event, by domain, and the matching field of the budget."""

Values = dict[str, Any]


class Decided(NamedTuple):
    """Every decision of a tick, by kind and domain or pool, such as plan/payments."""

    tick: int
    values: dict[str, Values]


def match_of(
    apps: int,
    seed: int,
    scenario: str = SCENARIO,
    controller: str = CONTROLLER,
    insured: frozenset[str] = frozenset(),
) -> Match:
    """A world and its controller; equal for equal arguments."""
    cluster = with_apps(load_sim_cluster(), apps)
    domains = tuple(
        msgspec.structs.replace(domain, survive="zone" if domain.name in insured else "none")
        for domain in cluster.domains
    )
    cluster = msgspec.structs.replace(cluster, domains=domains)
    return enter(controller, cluster, load_scenario(scenario, cluster), [seed])


def decided_in_process(match: Match) -> Iterator[Decided]:
    """Run the world in this process, tick by tick, with its breakers."""
    world, controller, forecaster = match
    assert forecaster is not None
    first = world.observe(controller.pipeline)
    state, memory = controller.start(first), forecaster.start(first)
    names, breakers = events.app_names(world), Breakers(world, controller, first)
    while world.tick < world.timeline.total_ticks:
        tick, seen = world.tick, world.observe(controller.pipeline)
        forecast, memory = forecaster.step(seen, memory)
        # A new epoch means that the Commander has decided in this tick.
        epoch_before = state.decision.directive.budget.epoch[0]
        plan, state = controller.step(seen, forecast, breakers.limit(seen.tick, state))
        values = _planned(match, plan, names)
        if state.decision.directive.budget.epoch[0] != epoch_before:
            values |= _granted(match, state.decision) | _forecast(match, forecast)
        yield Decided(tick, values)
        breakers.cut(seen, forecast, plan, state)
        world.step(plan)


def decided_by_events(found: list[Event]) -> dict[int, dict[str, Values]]:
    """The same from the events that services published, by tick."""
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
                    "insured_nodes": event.insured_nodes,
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
    """The first difference between two ticks, bit for bit; None if there is none."""
    for about, values in expected.items():
        if about not in found:
            return f"{about}: nothing was decided"
        for name, value in values.items():
            if found[about][name] != value:
                return f"{about}.{name}: expected {value}, got {found[about][name]}"
    return None


def _planned(match: Match, plan: Plan, names: tuple[str, ...]) -> dict[str, Values]:
    status, found = match.world.state.status[0], {}
    for index, domain in enumerate(match.world.cluster.domain_names):
        apps = ((status[rows.DOMAIN] == index) & (status[rows.ACTIVE] == 1)).nonzero()[0]
        found[f"plan/{domain}"] = {
            "apps": [names[app] for app in apps],
            **{name: getattr(plan, name)[0, apps].tolist() for name in _PLAN},
            "reasons": [
                Reason(code).name.lower().replace("_", "-") for code in plan.reason[0, apps]
            ],
        }
    return found


def _granted(match: Match, decision: Any) -> dict[str, Values]:
    cluster, budget, found = match.world.cluster, decision.directive.budget, {}
    for index, domain in enumerate(cluster.domain_names):
        cores = zip(cluster.pool_names, budget.pool_cores[0, index].tolist(), strict=True)
        found[f"budget/{domain}"] = {
            **{name: float(getattr(budget, of)[0, index]) for name, of in _BUDGET.items()},
            "epoch": int(budget.epoch[0]),
            "reserve_share": float(budget.reserve[0]),
            "growth": float(decision.directive.growth[0, index]),
            "release_cores": float(decision.directive.release[0, index]),
            "valid_until_tick": int(budget.valid_until_tick[0]),
            "pool_cores": {name: value for name, value in cores if value > 0},
        }
    for index, pool in enumerate(cluster.pool_names):
        nodes, keep = decision.nodes[0, index].tolist(), int(decision.keep[0, index])
        insured = int(decision.insured[0, index])
        found[f"nodes/{pool}"] = {"nodes": nodes, "min_nodes": keep, "insured_nodes": insured}
    return found


def _forecast(match: Match, forecast: Forecast) -> dict[str, Values]:
    return {
        f"forecast/{domain}": {
            "rps": forecast.domain[0, index].tolist(),
            "peak": forecast.domain_peak[0, index].tolist(),
            "valid_until_tick": int(forecast.valid_until_tick[0]),
        }
        for index, domain in enumerate(match.world.cluster.domain_names)
    }

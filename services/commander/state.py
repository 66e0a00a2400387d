"""What the Commander remembers, and which events of a minute it believes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from models.control.plausible import CORES, Held, forecast_problem, highest_seen, sums_problem
from models.registry.drift import Watched
from models.registry.rollout import Rollout
from schemas.demand_forecast import DemandForecast
from schemas.fields import TickEvent
from schemas.pool_observed import PoolObserved
from schemas.scale_planned import ScalePlanned, Sums
from schemas.topics import key_of
from services._kit.plausible import Timeline
from services._kit.ticks import TickBuffer
from services.commander.transition import CommanderSnapshot


@dataclass(frozen=True)
class CommanderState:
    """What the Commander remembers of the whole cluster."""

    minutes: TickBuffer[TickEvent] = field(default_factory=TickBuffer)
    """Events of minutes that are not decided yet, by their first tick."""
    timeline: Timeline = field(default_factory=Timeline)
    epoch: int = -1
    """Epoch of the last budget; it only rises."""
    sums: Mapping[str, Sums] = field(default_factory=dict)
    """The last reported sums of each domain."""
    reported_tick: Mapping[str, int] = field(default_factory=dict)
    """Tick of these sums."""
    pools: Mapping[str, PoolObserved] = field(default_factory=dict)
    forecasts: Mapping[str, DemandForecast] = field(default_factory=dict)
    highest_rps: Mapping[str, float] = field(default_factory=dict)
    """The highest traffic that each domain has reported."""
    doubts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What was not believed in the last minute, by domain; its last values stay in force."""
    doubted: Mapping[str, Sums] = field(default_factory=dict)
    """The last sums of domains that were not believed. The next ones are believed if they agree
    with these. Otherwise one forged report of almost nothing would make every later true report
    look too large."""
    snapshot: CommanderSnapshot | None = None
    """State and action of the last minute, for the next transition."""
    spend_per_hour: tuple[float, ...] = ()
    """What all nodes cost in the last minutes, the newest last."""
    rollout: Rollout = field(default_factory=Rollout)
    """Which promoted policy advises, and which one is on its way."""
    watched: Watched = field(default_factory=Watched)
    """The features of the policies that answer."""


def name_of(event: TickEvent) -> str:
    """Name of an event within its minute."""
    match event:
        case ScalePlanned():
            return f"plan/{event.domain}"
        case DemandForecast():
            return f"forecast/{event.domain}"
        case PoolObserved():
            return f"pool/{event.pool}"
        case _:
            raise TypeError(f"expected a plan, a forecast or a pool, got {type(event).__name__}")


def known_tick(event: TickEvent, state: CommanderState) -> int:
    """Tick of the newest known event of the same kind and subject; -1 without one."""
    if isinstance(event, ScalePlanned):
        return state.reported_tick.get(event.domain, -1)
    known = state.forecasts if isinstance(event, DemandForecast) else state.pools
    found: TickEvent | None = known.get(key_of(event))
    return -1 if found is None else found.tick


def with_newest(
    state: CommanderState, events: Iterable[TickEvent], largest: float
) -> CommanderState:
    """Remember the newest believable event of each domain, and the newest of each pool."""
    sums, reported_tick = dict(state.sums), dict(state.reported_tick)
    forecasts, pools = dict(state.forecasts), dict(state.pools)
    highest, doubts = dict(state.highest_rps), dict[str, tuple[str, ...]]()
    doubted = dict(state.doubted)
    # Plans first: a forecast of the same minute is compared with the traffic that they report.
    for event in sorted(events, key=lambda one: not isinstance(one, ScalePlanned)):
        if problem := _problem(event, sums, doubted, highest, largest):
            domain = key_of(event)
            doubts[domain] = (*doubts.get(domain, ()), problem)
            if isinstance(event, ScalePlanned) and event.sums is not None:
                doubted[domain] = event.sums
            continue
        match event:
            # Plans without sums, which the schema allows, leave the last ones in force.
            case ScalePlanned() if event.sums is not None:
                sums[event.domain], reported_tick[event.domain] = event.sums, event.tick
                doubted.pop(event.domain, None)
                before = highest.get(event.domain, 0.0)
                highest[event.domain] = highest_seen(before, event.sums.rps, largest)
            case DemandForecast():
                forecasts[event.domain] = event
            case PoolObserved():
                pools[event.pool] = event
            case _:
                pass
    return replace(
        state,
        sums=sums,
        reported_tick=reported_tick,
        forecasts=forecasts,
        pools=pools,
        highest_rps=highest,
        doubts=doubts,
        doubted=doubted,
    )


def _problem(
    event: TickEvent,
    sums: Mapping[str, Sums],
    doubted: Mapping[str, Sums],
    highest: Mapping[str, float],
    largest: float,
) -> str:
    """Why an event is not believed; empty if it is."""
    match event:
        case ScalePlanned() if event.sums is not None:
            problem = _sums_problem(event.sums, sums.get(event.domain), largest)
            earlier = doubted.get(event.domain)
            if not problem or earlier is None:
                return problem
            # Compared with the last report that was not believed: two that agree are believed.
            return _sums_problem(event.sums, earlier, largest)
        case DemandForecast():
            seen = highest.get(event.domain, 0.0)
            return forecast_problem(event.rps, event.peak_rps, seen, largest)
        case _:
            return ""


def _sums_problem(new: Sums, last: Sums | None, largest: float) -> str:
    cores = [getattr(new, name) for name in CORES]
    return sums_problem(cores, _held(new), None if last is None else _held(last), largest)


def _held(sums: Sums) -> Held:
    return Held(sums.held, sums.held_memory_gib)

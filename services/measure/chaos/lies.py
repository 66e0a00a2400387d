"""Faults that deceive: valid records, and metrics, that say what is not true."""

import time
from collections.abc import Callable
from typing import Final, TypeVar

from schemas.budget_granted import BudgetGranted
from schemas.demand_forecast import DemandForecast
from schemas.fields import TickEvent
from schemas.pool_observed import PoolObserved
from services._kit.ticks import axis_of
from services.admin.reader import TopicReader
from services.measure.chaos import forgeries, records
from services.measure.chaos.flaky_source import BLIND, Falsehood, Lie
from services.measure.chaos.floods import send
from services.measure.chaos.place import Claims, Injection, Place, Skipped

E = TypeVar("E", bound=TickEvent)

_MINUTES: Final = 4
"""For which a liar goes on."""
_METRICS_TICKS: Final = 12
_PER_MINUTE: Final = 6
_TICK_S: Final = 10
_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.2


def falsifying(falsehood: Falsehood, *, everywhere: bool) -> Injection:
    """False metrics from the source, of one domain or of all."""

    def inject(place: Place) -> Claims:
        domains = place.domains if everywhere else (place.rng.choice(place.domains),)
        place.source.tell(Lie(falsehood, frozenset(domains)))
        try:
            time.sleep(place.seconds(_METRICS_TICKS))
        finally:
            falsified = place.source.stop()
        return Claims(blind=falsified if falsehood in BLIND else frozenset())

    return inject


def forge_samples(place: Place) -> Claims:
    """Call a domain's apps idle, in the ticks that are sampled next."""
    domain = place.rng.choice(place.domains)
    busy, frame = place.busy_apps([domain]), place.newest_frame(domain)
    time_at = axis_of(frame.tick, frame.time, _TICK_S).time_at
    # Several ticks ahead: some arrive before the true samples, and close the tick.
    for tick in range(frame.tick + 1, frame.tick + 5):
        send(place, records.forged_samples(domain, tick, time_at(tick), frame.apps))
    return Claims(idle_apps=busy)


def forge_epochs(place: Place) -> Claims:
    """A Commander that grants nothing, under an epoch that beats every other."""
    send(place, records.forged_budgets(place.domains, place.tick()))
    return Claims(epochs=frozenset({records.LAST_EPOCH}))


def misgrant(place: Place) -> Claims:
    """A Commander whose budgets look right: everything for P3, its floor for everybody else."""
    return _grant(place, lambda _: place.domains[-1])


def flip(place: Place) -> Claims:
    """The same, and in every other minute everything for P0."""
    return _grant(place, lambda turn: place.domains[-1 if turn % 2 else 0])


def _grant(place: Place, favourite: Callable[[int], str]) -> Claims:
    """Replace the true budgets of some minutes.

    They are believed, so no app is called idle by them. The audit counts what they take away from
    apps that use it.
    """
    tick = -1
    for turn in range(_MINUTES):
        # After the true ones, with the next epoch: they count until the true ones of the next
        # minute.
        budgets = _newest(place, BudgetGranted, after=tick)
        tick = budgets[0].tick
        send(place, forgeries.lopsided(budgets, favourite(turn)))
    return Claims()


def buy_quota(place: Place) -> Claims:
    """A Commander that requests as many nodes as each pool may have."""
    tick = -1
    with TopicReader(place.options) as reader:
        pools = {one.pool: one for one in reader.read_all(PoolObserved)}
    for _ in range(_MINUTES):
        budgets = _newest(place, BudgetGranted, after=tick)
        tick = budgets[0].tick
        # A tick later than the true request, so that it counts until the next true one.
        requests = forgeries.quota_requests(list(pools.values()), tick + 1, budgets[0].epoch)
        time.sleep(place.seconds(1))
        send(place, requests)
    return Claims()


def forecasting(value: float) -> Injection:
    """A model that answers every question with the same number."""

    def inject(place: Place) -> Claims:
        forecasts = _newest(place, DemandForecast, after=-1)
        time_at = axis_of(forecasts[0].tick, forecasts[0].time, _TICK_S).time_at
        for _ in range(_MINUTES):
            # For the next minute, before the true ones: the first forecast of a tick counts.
            tick = (place.tick() // _PER_MINUTE + 1) * _PER_MINUTE
            send(place, forgeries.constant_forecasts(forecasts, tick, time_at(tick), value))
            time.sleep(place.seconds(_PER_MINUTE))
        return Claims()

    return inject


def _newest(place: Place, kind: type[E], after: int) -> list[E]:
    """The newest event of each domain, all of one tick that is later than `after`."""
    deadline = time.monotonic() + _TIMEOUT_S
    with TopicReader(place.options) as reader:
        while time.monotonic() < deadline:
            found = [reader.find_newest(kind, name, lambda _: True) for name in place.domains]
            events = [one for one in found if one is not None]
            ticks = {one.tick for one in events}
            if len(events) == len(place.domains) and len(ticks) == 1 and ticks.pop() > after:
                return events
            time.sleep(_POLL_S)
    raise Skipped(f"not every domain got a {kind.__name__} within {_TIMEOUT_S:.0f} s")

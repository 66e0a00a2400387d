"""Faults by false data: valid records and metrics with wrong content."""

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
from services.measure.chaos.flaky_source import BLIND, Falsification, MetricsFault
from services.measure.chaos.floods import send
from services.measure.chaos.subject import Claims, Injection, Skipped, Subject

E = TypeVar("E", bound=TickEvent)

_MINUTES: Final = 4
"""How long forged records are sent."""
_METRICS_TICKS: Final = 12
_PER_MINUTE: Final = 6
_TICK_S: Final = 10
_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.2


def falsifying(kind: MetricsFault, *, everywhere: bool) -> Injection:
    """False metrics from the source, of one domain or of all."""

    def inject(subject: Subject) -> Claims:
        domains = subject.domains if everywhere else (subject.rng.choice(subject.domains),)
        subject.source.falsify_as(Falsification(kind, frozenset(domains)))
        try:
            time.sleep(subject.seconds(_METRICS_TICKS))
        finally:
            falsified = subject.source.stop()
        return Claims(blind=falsified if kind in BLIND else frozenset())

    return inject


def forge_samples(subject: Subject) -> Claims:
    """Call a domain's apps idle, in the ticks that are sampled next."""
    domain = subject.rng.choice(subject.domains)
    busy, frame = subject.busy_apps([domain]), subject.newest_frame(domain)
    time_at = axis_of(frame.tick, frame.time, _TICK_S).time_at
    # Several ticks ahead: some arrive before the true samples, and close the tick.
    for tick in range(frame.tick + 1, frame.tick + 5):
        send(subject, records.forged_samples(domain, tick, time_at(tick), frame.apps))
    return Claims(idle_apps=busy)


def forge_epochs(subject: Subject) -> Claims:
    """Forge budgets that grant nothing, with an epoch above every other."""
    send(subject, records.forged_budgets(subject.domains, subject.tick()))
    return Claims(epochs=frozenset({records.LAST_EPOCH}))


def grant_all_to_lowest(subject: Subject) -> Claims:
    """Forge plausible budgets: everything for P3, its floor for every other domain."""
    return _grant(subject, lambda _: subject.domains[-1])


def grant_by_turns(subject: Subject) -> Claims:
    """The same, but everything for P0 in every other minute."""
    return _grant(subject, lambda turn: subject.domains[-1 if turn % 2 else 0])


def _grant(subject: Subject, favourite: Callable[[int], str]) -> Claims:
    """Replace the true budgets of some minutes.

    Services accept them, so they claim nothing about idle apps. The audit counts what they take
    away from apps that use it.
    """
    tick = -1
    for turn in range(_MINUTES):
        # After the true ones, with the next epoch: they count until the true ones of the next
        # minute.
        budgets = _newest(subject, BudgetGranted, after=tick)
        tick = budgets[0].tick
        send(subject, forgeries.lopsided(budgets, favourite(turn)))
    return Claims()


def buy_quota(subject: Subject) -> Claims:
    """Forge requests for as many nodes as each pool may have."""
    tick = -1
    with TopicReader(subject.options) as reader:
        pools = {one.pool: one for one in reader.read_all(PoolObserved)}
    for _ in range(_MINUTES):
        budgets = _newest(subject, BudgetGranted, after=tick)
        tick = budgets[0].tick
        # A tick later than the true request, so that it counts until the next true one.
        requests = forgeries.quota_requests(list(pools.values()), tick + 1, budgets[0].epoch)
        time.sleep(subject.seconds(1))
        send(subject, requests)
    return Claims()


def forecasting(value: float) -> Injection:
    """Forge forecasts with the same number for every horizon."""

    def inject(subject: Subject) -> Claims:
        forecasts = _newest(subject, DemandForecast, after=-1)
        time_at = axis_of(forecasts[0].tick, forecasts[0].time, _TICK_S).time_at
        for _ in range(_MINUTES):
            # For the next minute, before the true ones: the first forecast of a tick counts.
            tick = (subject.tick() // _PER_MINUTE + 1) * _PER_MINUTE
            send(subject, forgeries.constant_forecasts(forecasts, tick, time_at(tick), value))
            time.sleep(subject.seconds(_PER_MINUTE))
        return Claims()

    return inject


def _newest(subject: Subject, kind: type[E], after: int) -> list[E]:
    """The newest event of each domain, all of one tick that is later than `after`."""
    deadline = time.monotonic() + _TIMEOUT_S
    with TopicReader(subject.options) as reader:
        while time.monotonic() < deadline:
            found = [reader.find_newest(kind, name, lambda _: True) for name in subject.domains]
            events = [one for one in found if one is not None]
            ticks = {one.tick for one in events}
            if len(events) == len(subject.domains) and len(ticks) == 1 and ticks.pop() > after:
                return events
            time.sleep(_POLL_S)
    raise Skipped(f"not every domain got a {kind.__name__} within {_TIMEOUT_S:.0f} s")

"""Detects the three failure modes of independent autoscalers in a recording.

A tick is judged by itself and earlier ticks only, so a live view and a report find the same.

- *stampede*: many apps ask for nodes within the same half-minute, many nodes are coming at once,
  and the pods bound since then took minutes from need to ready.
- *cascade*: pods of a domain without a rise in traffic wait because another domain's traffic rose.
  Both may use the same pool, and the other domain does not call the waiting one.
- *priority inversion*: P0 pods wait while P3 holds capacity.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec
import numpy as np

from models.cluster.arrays import F64, Mask
from models.sim.results.findings import Episode, FailureName, Finding, Setting, describe
from models.sim.results.recording import Recording
from models.sim.results.summary import quantile_s
from models.sim.world import World


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """When something counts as a failure."""

    asking_share: float = 0.03
    """Stampede: share of all apps that ask for nodes within half a minute."""
    asking_apps: int = 5
    """Stampede: and at least so many apps, so that a tiny cluster is not always in a stampede."""
    coming_share: float = 0.03
    """Stampede: nodes booting or requested at once, over the ready ones. With fewer, pods wait
    because a quota is used up, not because of the provisioner."""
    slow_s: float = 150.0
    """Stampede: 95th percentile of need-to-ready of the pods bound in the last two minutes."""
    risen: float = 1.3
    """Cascade: traffic from outside over its lowest five-minute mean of the last hour."""
    not_risen: float = 1.1
    """Cascade: at most this rise of a bystander's traffic, with calls and without retries."""
    quiet_s: float = 900.0
    """Cascade: and for at least this long."""
    waiting_share: float = 0.01
    """Cascade, inversion: pods without a node, over the domain's pods."""
    waited_s: float = 60.0
    """Cascade, inversion: and one of them has waited this long for a node. An idle provisioner
    takes at most this long from need to ready."""
    p3_share: float = 0.05
    """Inversion: share of the ready CPU that P3 holds."""
    pause_s: float = 300.0
    """A failure that returns within this time is the same failure."""


class _Match(NamedTuple):
    """A failure in one tick: when it began, and the domains that suffer and cause it."""

    first: int
    bound_from: int
    domains: Mask
    culprits: Mask


_BURST_MEMORY_S: Final = 600
_BOUND_WITHIN_S: Final = 120
_MAIN_SHARE: Final = 0.15
"""Minimum share of the asking apps for a domain to be part of the stampede."""
_AT_ONCE_S: Final = 60
"""Cascade: pods needed this long before a rise becomes visible may still be due to it."""
_SMOOTH_S: Final = 300
_BASELINE_S: Final = 3600


class FailureWatch:
    """Detects failures; call `look` once per recorded tick, in order."""

    def __init__(self, setting: Setting, thresholds: Thresholds | None = None) -> None:
        self._setting = setting
        self._limits = thresholds or Thresholds()
        self._burst_tick: int | None = None
        self._last_rise = np.full(len(setting.domains), -np.inf)
        self._risen_since = np.full(len(setting.domains), np.inf)
        self._episodes: list[Episode] = []

    def look(self, recording: Recording, tick: int) -> list[Finding]:
        """The failures that are new in this tick."""
        if tick < self._setting.first_tick:
            return []
        rules: dict[FailureName, Callable[[Recording, int], _Match | None]] = {
            "stampede": self._stampede,
            "cascade": self._cascade,
            "priority inversion": self._inversion,
        }
        begun = []
        for name, rule in rules.items():
            match = rule(recording, tick)
            if match is not None and self._add(name, match, tick):
                begun.append(describe(self._episodes[-1], recording, self._setting))
        return begun

    def findings(self, recording: Recording) -> list[Finding]:
        """All failures so far, earliest first, with figures over their whole length."""
        episodes = sorted(self._episodes, key=lambda episode: episode.first)
        return [describe(episode, recording, self._setting) for episode in episodes]

    def _add(self, name: FailureName, match: _Match, tick: int) -> bool:
        """Add a tick to an episode; returns True if a new episode begins."""
        pause = self._limits.pause_s / self._setting.tick_s
        for episode in self._episodes:
            # `match.first` may be before this tick: a stampede begins before it can be detected.
            if episode.name == name and match.first - episode.last <= pause:
                episode.last = tick
                episode.domains |= match.domains
                episode.culprits |= match.culprits
                return False
        self._episodes.append(Episode(name, *match))
        self._episodes[-1].last = tick
        return True

    def _stampede(self, recording: Recording, tick: int) -> _Match | None:
        limits, tick_s = self._limits, self._setting.tick_s
        many = max(limits.asking_apps, limits.asking_share * self._setting.apps)
        # The burst of requests comes minutes before its pods are ready, so remember it for a while.
        fresh = self._burst_tick is not None and tick - self._burst_tick <= _BURST_MEMORY_S / tick_s
        if not fresh:
            self._burst_tick = tick if recording.asking[tick].sum() >= many else None
        if self._burst_tick is None:
            return None
        bound_from = _since(tick, _BOUND_WITHIN_S, tick_s)
        bound = recording.waits[bound_from : tick + 1]
        if quantile_s(bound.sum(axis=(0, 1)), 0.95, tick_s) < limits.slow_s:
            return None
        if _most_coming(recording, self._burst_tick, tick) < limits.coming_share:
            return None
        burst = recording.asking[self._burst_tick : tick + 1]
        asked = burst[burst.sum(axis=1).argmax()]
        # The domains with most of the asking apps at the height of the burst.
        most = asked >= _MAIN_SHARE * asked.sum()
        return _Match(self._burst_tick, bound_from, most, most)

    def _cascade(self, recording: Recording, tick: int) -> _Match | None:
        tick_s = self._setting.tick_s
        risen = traffic_rise(recording.outside, tick, tick_s) >= self._limits.risen
        # Without retries: they are an effect on the bystander, not a cause.
        own = traffic_rise(recording.rps - recording.retries, tick, tick_s)
        self._last_rise[own > self._limits.not_risen] = tick
        # Pods may still wait long after a rise of the domain itself.
        quiet = tick - self._last_rise > self._limits.quiet_s / tick_s
        self._risen_since = np.where(risen, np.minimum(self._risen_since, tick), np.inf)
        # Pods that were needed before the rise have another cause, such as a lost zone.
        needed = tick - recording.waited_s[tick] / tick_s
        after = self._risen_since[None, :] <= needed[:, None] + _AT_ONCE_S / tick_s
        harmed = self._setting.share_pool & after
        harmed &= (self._waiting(recording, tick) & quiet)[:, None]
        if not harmed.any():
            return None
        return _Match(tick, tick, harmed.any(axis=1), harmed.any(axis=0))

    def _inversion(self, recording: Recording, tick: int) -> _Match | None:
        waiting = self._waiting(recording, tick) & (self._setting.priority == 0)
        holding = self._setting.priority == 3
        if not waiting.any() or recording.held[tick][holding].sum() < self._limits.p3_share:
            return None
        return _Match(tick, tick, waiting, holding)

    def _waiting(self, recording: Recording, tick: int) -> Mask:
        """[D] whether enough of the domain's pods have waited long enough for a node."""
        pods = recording.ready[tick] + recording.starting[tick] + recording.pending[tick]
        many = recording.pending[tick] > self._limits.waiting_share * pods
        waiting: Mask = many & (recording.waited_s[tick] >= self._limits.waited_s)
        return waiting


def setting_of(world: World) -> Setting:
    """The setting for recordings of a world."""
    uses = [set(domain.pools) for domain in world.cluster.domains]
    shared = np.array([[bool(a & b) for b in uses] for a in uses])
    names = world.cluster.domain_names
    for call in world.cluster.calls:
        # A caller's spike reaches its callees by calls, which is not a cascade.
        shared[names.index(call.callee), names.index(call.caller)] = False
    return Setting(
        domains=world.cluster.domain_names,
        priority=world.given.rules.domains["priority"],
        share_pool=shared,
        apps=int(world.given.apps.size),
        tick_s=float(world.cluster.tick_seconds),
        first_tick=world.timeline.warmup_ticks,
    )


def traffic_rise(rps: F64, tick: int, tick_s: float) -> F64:
    """[D] traffic of a tick over its lowest five-minute mean of the hour before."""
    recent = rps[_since(tick, _BASELINE_S, tick_s) : tick + 1]
    width = max(1, round(_SMOOTH_S / tick_s))
    if recent.shape[0] <= width:
        # Too early for a baseline: nothing counts as risen.
        return np.ones(recent.shape[1])
    sums = np.cumsum(recent, axis=0)
    means = (sums[width:] - sums[:-width]) / width
    return np.asarray(recent[-1] / np.maximum(means.min(axis=0), 1e-9))


def _most_coming(recording: Recording, first: int, last: int) -> float:
    """Most nodes coming at once within these ticks, over those ready in the first."""
    during = slice(first, last + 1)
    coming = (recording.nodes_booting[during] + recording.nodes_asked[during]).sum(axis=1)
    return float(coming.max() / max(1, recording.nodes_ready[first].sum()))


def _since(tick: int, seconds: float, tick_s: float) -> int:
    return max(0, tick - round(seconds / tick_s) + 1)

"""Names the three ways in which independent autoscalers fail, as they occur in a recording.

Only the ticks up to the one looked at count, so that a live view and a report name the same.

- *stampede*: many apps ask for nodes within the same half-minute, many nodes are on their way at
  once, and the pods that were bound since took minutes from need to ready.
- *cascade*: pods of a domain whose own traffic did not rise wait, since another domain's traffic
  rose; both may use the same pool, and the other one does not call it.
- *priority inversion*: P0 pods wait while P3 holds capacity.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec
import numpy as np

from models.cluster.arrays import F64
from models.sim.results.findings import Episode, FailureName, Finding, Mask, Setting, describe
from models.sim.results.recording import Recording
from models.sim.results.summary import quantile_s
from models.sim.world import World


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """From when on something is called a failure."""

    asking_share: float = 0.03
    """Stampede: apps that ask within half a minute, of all apps."""
    asking_apps: int = 5
    """Stampede: and at least so many, so that a tiny cluster does not always stampede."""
    coming_share: float = 0.03
    """Stampede: nodes booting or asked of the cloud at once, of the ready ones; where hardly any
    come, pods wait for a quota that is used up, and not for the provisioner."""
    slow_s: float = 150.0
    """Stampede: need-to-ready (95th percentile) of the pods bound in the last two minutes."""
    risen: float = 1.3
    """Cascade: traffic from outside over its lowest five-minute mean of the last hour."""
    not_risen: float = 1.1
    """Cascade: a bystander's, calls included and retries not, is at most this."""
    quiet_s: float = 900.0
    """Cascade: and has been for so long."""
    waiting_share: float = 0.01
    """Cascade, inversion: pods without a node, of the domain's pods."""
    waited_s: float = 60.0
    """Cascade, inversion: and one of them has waited so long for a node alone, as a request to
    an idle provisioner takes at most from need to ready."""
    p3_share: float = 0.05
    """Inversion: what P3 holds of the ready CPU."""
    pause_s: float = 300.0
    """A failure that returns within this time has not ended."""


class _Seen(NamedTuple):
    """A rule's answer for one tick: when it began and whom it touches."""

    first: int
    bound_from: int
    domains: Mask
    culprits: Mask


_BURST_MEMORY_S: Final = 600
_BOUND_WITHIN_S: Final = 120
_MOST: Final = 0.15
"""A domain with this share of the asking apps is part of the stampede."""
_AT_ONCE_S: Final = 60
"""Cascade: pods needed this long before a rise shows may still be due to it."""
_SMOOTH_S: Final = 300
_BASELINE_S: Final = 3600


class FailureWatch:
    """Looks at each recorded tick once, in order."""

    def __init__(self, setting: Setting, thresholds: Thresholds | None = None) -> None:
        self._setting = setting
        self._limits = thresholds or Thresholds()
        self._burst: int | None = None
        self._rose = np.full(len(setting.domains), -np.inf)
        self._up = np.full(len(setting.domains), np.inf)
        self._episodes: list[Episode] = []

    def look(self, recording: Recording, tick: int) -> list[Finding]:
        """The failures that begin to show in this tick."""
        if tick < self._setting.first_tick:
            return []
        rules: dict[FailureName, Callable[[Recording, int], _Seen | None]] = {
            "stampede": self._stampede,
            "cascade": self._cascade,
            "priority inversion": self._inversion,
        }
        begun = []
        for name, rule in rules.items():
            seen = rule(recording, tick)
            if seen is not None and self._note(name, seen, tick):
                begun.append(describe(self._episodes[-1], recording, self._setting))
        return begun

    def findings(self, recording: Recording) -> list[Finding]:
        """All failures so far, the earliest first, with the figures of their whole length."""
        episodes = sorted(self._episodes, key=lambda episode: episode.first)
        return [describe(episode, recording, self._setting) for episode in episodes]

    def _note(self, name: FailureName, seen: _Seen, tick: int) -> bool:
        """Whether a new episode began; otherwise the last one of that name goes on."""
        pause = self._limits.pause_s / self._setting.tick_s
        for episode in self._episodes:
            if episode.name == name and seen.first - episode.last <= pause:
                episode.last = tick
                episode.domains |= seen.domains
                episode.culprits |= seen.culprits
                return False
        self._episodes.append(Episode(name, *seen))
        self._episodes[-1].last = tick
        return True

    def _stampede(self, recording: Recording, tick: int) -> _Seen | None:
        limits, tick_s = self._limits, self._setting.tick_s
        many = max(limits.asking_apps, limits.asking_share * self._setting.apps)
        fresh = self._burst is not None and tick - self._burst <= _BURST_MEMORY_S / tick_s
        if not fresh:
            self._burst = tick if recording.asking[tick].sum() >= many else None
        if self._burst is None:
            return None
        bound_from = _since(tick, _BOUND_WITHIN_S, tick_s)
        bound = recording.waits[bound_from : tick + 1]
        if quantile_s(bound.sum(axis=(0, 1)), 0.95, tick_s) < limits.slow_s:
            return None
        if _most_coming(recording, self._burst, tick) < limits.coming_share:
            return None
        burst = recording.asking[self._burst : tick + 1]
        asked = burst[burst.sum(axis=1).argmax()]
        most = asked >= _MOST * asked.sum()
        return _Seen(self._burst, bound_from, most, most)

    def _cascade(self, recording: Recording, tick: int) -> _Seen | None:
        tick_s = self._setting.tick_s
        risen = traffic_rise(recording.outside, tick, tick_s) >= self._limits.risen
        # Failing requests come again: that is the bystander's plight, not its doing.
        own = traffic_rise(recording.rps - recording.retries, tick, tick_s)
        self._rose[own > self._limits.not_risen] = tick
        # Pods that a domain's own rise left behind may wait long after it.
        quiet = tick - self._rose > self._limits.quiet_s / tick_s
        self._up = np.where(risen, np.minimum(self._up, tick), np.inf)
        # Pods that were missing before the rise have another cause: a lost zone, say.
        needed = tick - recording.waited_s[tick] / tick_s
        after = self._up[None, :] <= needed[:, None] + _AT_ONCE_S / tick_s
        harmed = self._setting.share_pool & after
        harmed &= (self._waiting(recording, tick) & quiet)[:, None]
        if not harmed.any():
            return None
        return _Seen(tick, tick, harmed.any(axis=1), harmed.any(axis=0))

    def _inversion(self, recording: Recording, tick: int) -> _Seen | None:
        waiting = self._waiting(recording, tick) & (self._setting.priority == 0)
        holding = self._setting.priority == 3
        if not waiting.any() or recording.held[tick][holding].sum() < self._limits.p3_share:
            return None
        return _Seen(tick, tick, waiting, holding)

    def _waiting(self, recording: Recording, tick: int) -> Mask:
        """[D] whether a relevant part of the domain's pods has no node, and not since just now."""
        pods = recording.ready[tick] + recording.starting[tick] + recording.pending[tick]
        many = recording.pending[tick] > self._limits.waiting_share * pods
        waiting: Mask = many & (recording.waited_s[tick] >= self._limits.waited_s)
        return waiting


def setting_of(world: World) -> Setting:
    """The setting of a world's recordings."""
    uses = [set(domain.pools) for domain in world.cluster.domains]
    shared = np.array([[bool(a & b) for b in uses] for a in uses])
    names = world.cluster.domain_names
    for call in world.cluster.calls:
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
        return np.ones(recent.shape[1])
    sums = np.cumsum(recent, axis=0)
    means = (sums[width:] - sums[:-width]) / width
    return np.asarray(recent[-1] / np.maximum(means.min(axis=0), 1e-9))


def _most_coming(recording: Recording, first: int, last: int) -> float:
    """Most nodes on their way within these ticks, over those ready at the first."""
    during = slice(first, last + 1)
    coming = (recording.nodes_booting[during] + recording.nodes_asked[during]).sum(axis=1)
    return float(coming.max() / max(1, recording.nodes_ready[first].sum()))


def _since(tick: int, seconds: float, tick_s: float) -> int:
    return max(0, tick - round(seconds / tick_s) + 1)

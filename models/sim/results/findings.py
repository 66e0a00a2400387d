"""A failure of a run with its figures, and a sentence that explains it."""

from typing import Literal, NamedTuple

import msgspec
import numpy as np

from models.cluster.arrays import I32, Mask
from models.sim.results.recording import Recording
from models.sim.results.summary import quantile_s

FailureName = Literal["stampede", "cascade", "priority inversion"]


class Setting(NamedTuple):
    """The properties of a world that failure detection needs."""

    domains: tuple[str, ...]
    priority: I32
    """[D] 0 to 3."""
    share_pool: Mask
    """[D, D] whether the domain of the row may use a pool of the domain of the column and is not
    called by it, so that shared nodes are their only connection."""
    apps: int
    tick_s: float
    first_tick: int
    """First tick of the accounted part: failures in the warm-up are ignored."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One failure, from its first tick to its last one so far."""

    name: FailureName
    tick: int
    last_tick: int
    domains: tuple[str, ...]
    """The domains that suffer."""
    numbers: dict[str, float]
    explanation: str
    """One sentence."""


class Episode:
    """The ticks of one failure while they are being collected."""

    def __init__(
        self, name: FailureName, first: int, bound_from: int, domains: Mask, culprits: Mask
    ) -> None:
        self.name = name
        self.first = self.last = first
        self.bound_from = bound_from
        """Pods bound from this tick on were delayed by the failure."""
        # Copies, because `FailureWatch` extends them in place.
        self.domains = domains.copy()
        self.culprits = culprits.copy()


_Explained = tuple[dict[str, float], str]


def describe(episode: Episode, recording: Recording, setting: Setting) -> Finding:
    """The finding of an episode, with figures over all its ticks."""
    explain = {
        "stampede": _stampede,
        "cascade": _cascade,
        "priority inversion": _inversion,
    }
    numbers, explanation = explain[episode.name](episode, recording, setting)
    return Finding(
        name=episode.name,
        tick=episode.first,
        last_tick=episode.last,
        domains=_names(setting, episode.domains),
        numbers=numbers,
        explanation=explanation,
    )


def _stampede(episode: Episode, recording: Recording, setting: Setting) -> _Explained:
    during = slice(episode.first, episode.last + 1)
    nodes = recording.nodes_booting[during] + recording.nodes_asked[during]
    numbers = {
        "asking_apps": float(recording.asking[during].sum(axis=1).max()),
        "nodes_on_the_way": float(nodes.sum(axis=1).max()),
        # Of all domains: in a stampede every pod waits for the same provisioner.
        **_need_to_ready(episode, recording, setting, np.ones_like(episode.domains)),
    }
    return numbers, (
        f"up to {numbers['asking_apps']:.0f} apps, most of {_listed(setting, episode.culprits)},"
        f" asked for nodes within half a minute, {numbers['nodes_on_the_way']:.0f} nodes were on"
        f" their way at once, and 5 % of the pods bound then took {_minutes(numbers)} or more from"
        " need to ready."
    )


def _cascade(episode: Episode, recording: Recording, setting: Setting) -> _Explained:
    during = slice(episode.first, episode.last + 1)
    hit, culprits = episode.domains, episode.culprits
    numbers = {
        "waiting_pods": float(recording.pending[during][:, hit].sum(axis=1).max()),
        "violating_share": float(recording.violating[during][:, hit].max()),
        "held_by_the_risen": float(recording.held[during][:, culprits].sum(axis=1).max()),
        **_need_to_ready(episode, recording, setting, hit),
    }
    return numbers, (
        f"{_listed(setting, hit)} had up to {numbers['waiting_pods']:.0f} pods without a node"
        f" although the traffic there hardly rose: {_listed(setting, culprits)} rose and held up"
        f" to {numbers['held_by_the_risen']:.0%} of the CPU; 5 % of the bystander's pods took"
        f" {_minutes(numbers)} or more from need to ready."
    )


def _inversion(episode: Episode, recording: Recording, setting: Setting) -> _Explained:
    during = slice(episode.first, episode.last + 1)
    waits = recording.waited_s[during][:, episode.domains]
    # Without the ticks of a pause, in which P0 does not wait.
    held = recording.held[during][:, episode.culprits].sum(axis=1)[waits.max(axis=1) > 0]
    numbers = {
        "p3_share": float(held.mean()),
        "p3_share_max": float(held.max()),
        "waiting_pods": float(recording.pending[during][:, episode.domains].sum(axis=1).max()),
        "waited_s": float(waits.max()),
    }
    return numbers, (
        f"up to {numbers['waiting_pods']:.0f} pods of {_listed(setting, episode.domains)} (P0)"
        f" waited for a node, one of them {numbers['waited_s']:.0f} s, while"
        f" {_listed(setting, episode.culprits)} (P3) held {numbers['p3_share']:.1%} of the CPU."
    )


def _need_to_ready(
    episode: Episode, recording: Recording, setting: Setting, domains: Mask
) -> dict[str, float]:
    """Quantiles over the delayed pods of `domains`."""
    # From `bound_from`: a stampede is found from pods that were bound before.
    bound = recording.waits[episode.bound_from : episode.last + 1, domains]
    waits = bound.sum(axis=(0, 1), dtype=np.int64)
    return {
        "need_to_ready_p50_s": quantile_s(waits, 0.5, setting.tick_s),
        "need_to_ready_p95_s": quantile_s(waits, 0.95, setting.tick_s),
    }


def _minutes(numbers: dict[str, float]) -> str:
    return f"{numbers['need_to_ready_p95_s'] / 60:.1f} min"


def _listed(setting: Setting, domains: Mask) -> str:
    *others, last = _names(setting, domains)
    return f"{', '.join(others)} and {last}" if others else last


def _names(setting: Setting, domains: Mask) -> tuple[str, ...]:
    return tuple(name for name, hit in zip(setting.domains, domains, strict=True) if hit)

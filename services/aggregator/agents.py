"""Samples of agents: only of their own domain, and only of single pods.

An agent may report less than the collector. It proves its domain by a signature. It can neither
move event time nor close a tick nor start its grace period: each tick waits for the collector.
Where the collector reports an app as well, the collector's samples count.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from hmac import compare_digest
from pathlib import Path
from typing import Final

from models.cluster.description import Cluster
from models.control.parameters import Parameters
from schemas.codec import Malformed, decode
from schemas.fields import Event
from schemas.metrics_sampled import PODS, MetricsSampled
from schemas.samples_signed import SamplesSigned, signature_of
from schemas.topics import topic_of
from services._kit.clock import Clock
from services._kit.errors import BadSettings, Refused
from services._kit.handler import Step
from services.aggregator.decide import SOURCE, AggregatorHandler, AggregatorState
from services.aggregator.samples import no_samples, with_batch

_AGENTS: Final = "agents"
_LEAST_KEY_BYTES: Final = 32
_MOST_AHEAD: Final = 6
"""Ticks that only agents have reported; of more, the newest are kept."""
_TOPIC: Final = topic_of(MetricsSampled).name


@dataclass(frozen=True)
class AgentKeys:
    """Keys of the agents."""

    by_domain: Mapping[str, tuple[bytes, ...]]
    """Several while they are being changed."""

    def __repr__(self) -> str:
        return f"AgentKeys({', '.join(sorted(self.by_domain))})"

    @property
    def domains(self) -> Collection[str]:
        """Domains whose agents are believed."""
        return self.by_domain.keys()

    def batch_of(self, event: SamplesSigned) -> MetricsSampled:
        """The samples of an agent; raises Refused unless it may send them."""
        keys = self.by_domain.get(event.domain)
        if keys is None:
            raise Refused("no-agent-key", f"expected a domain with a key, got {event.domain}")
        # Bytes, because text with other characters than ASCII cannot be compared.
        given = event.signature.encode(errors="replace")
        expected = (signature_of(event.batch, key).encode() for key in keys)
        if not any(compare_digest(given, one) for one in expected):
            raise Refused("wrong-signature", f"expected a key of {event.domain}, got another")
        try:
            batch = decode(_TOPIC, event.batch.encode())
        except Malformed as error:
            raise Refused(error.kind, error.detail) from None
        if not isinstance(batch, MetricsSampled):
            raise Refused("schema", "expected samples, got an empty batch")
        _check(batch, event.domain)
        return batch


def _check(batch: MetricsSampled, domain: str) -> None:
    """Refuse what an agent cannot know."""
    if batch.domain != domain:
        problem = f"samples of {domain}, got those of {batch.domain}"
    elif batch.final:
        problem = "`final` from the collector only: an agent does not know what else comes"
    elif not batch.pods:
        problem = "samples of single pods, got those of apps"
    elif reported := [name for name in PODS if getattr(batch, name)]:
        problem = f"`{reported[0]}` from the collector only: it asks the API server"
    else:
        return
    raise Refused("not-for-agents", f"expected {problem}")


def read_keys(folder: str, domains: Collection[str]) -> AgentKeys:
    """The keys in a folder: a file per domain, named like it, with a key per line."""
    found: dict[str, tuple[bytes, ...]] = {}
    try:
        # Kubernetes mounts a secret with links of its own beside the files, all with two dots.
        files = [file for file in Path(folder).iterdir() if not file.name.startswith("..")]
        for file in files:
            found[file.name] = tuple(file.read_bytes().split())
    except OSError as error:
        raise BadSettings(f"agent_keys: {error.filename}: {error.strerror}") from None
    for domain, keys in found.items():
        if domain not in domains:
            expected = ", ".join(sorted(domains))
            raise BadSettings(f"agent_keys: {domain}: expected a domain ({expected})")
        if not keys or min(map(len, keys)) < _LEAST_KEY_BYTES:
            raise BadSettings(
                f"agent_keys: {domain}: expected keys of at least {_LEAST_KEY_BYTES} bytes, one "
                "per line; `openssl rand -hex 32` makes one"
            )
    if not found:
        raise BadSettings(f"agent_keys: {folder} has no key")
    return AgentKeys(found)


class AgentAggregator(AggregatorHandler):
    """An aggregator that also reads samples of agents."""

    inputs = (MetricsSampled, SamplesSigned)

    def __init__(
        self,
        cluster: Cluster,
        parameters: Parameters,
        grace_s: float | None,
        keys: AgentKeys,
        speed: float = 1.0,
    ) -> None:
        super().__init__(cluster, parameters, grace_s, speed)
        self._keys = keys

    def handle(self, event: Event, state: AggregatorState, clock: Clock) -> Step[AggregatorState]:
        """Add a batch of an agent to its tick; everything else as without agents."""
        if not isinstance(event, SamplesSigned):
            return super().handle(event, state, clock)
        batch = self._keys.batch_of(event)
        # Before the collector's first samples it is unknown which ticks are right.
        if state.timeline.line is None or batch.tick <= state.closed:
            return Step(state)
        voters = frozenset({SOURCE})
        judged = state.timeline.judge(_AGENTS, batch, clock.date(), self._pace, voters)
        if judged.refused is not None:
            return Step(state, refused=judged.refused)
        samples = state.open_ticks.get(batch.tick) or no_samples(state.names)
        open_ticks = {**state.open_ticks, batch.tick: with_batch(samples, batch)}
        ahead = sorted(tick for tick, samples in open_ticks.items() if not samples.is_sourced)
        for tick in ahead[:-_MOST_AHEAD]:
            del open_ticks[tick]
        return self.wake(replace(state, open_ticks=open_ticks), clock)

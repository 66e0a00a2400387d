"""How many pod samples per second one aggregator handles: the rate rises until it lags."""

import time
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from models.inputs.errors import InputError
from schemas.metrics_sampled import MetricsSampled
from schemas.topics import topic_of
from services.devcluster.probe import is_ready
from services.devcluster.request import Request
from services.measure.feeding import Feeder, Pods
from services.measure.testbed import MeasuredSystem, measured_system, read_cpu, usage_since

BATCHED: Final = 500
SINGLE: Final = 1
AGGREGATOR: Final = "aggregator"
_STEP_S: Final = 10.0
"""One tick: it opens when a step begins and closes at its end."""
# An aggregator handled 59,000/s in batches and 750/s singly (docs/results/2026-11-16-path.md).
_FIRST_PER_S: Final = {BATCHED: 10_000, SINGLE: 250}
_MOST_PER_S: Final = 640_000.0
_FINE_STEPS: Final = 2
"""Bisections between the last rate that the aggregator handled and the first it did not."""
_BEHIND_S: Final = 1.0
"""A larger backlog when the last record is sent means that the lag grows."""
_FEEDER_SHARE: Final = 0.9
"""Below this share of the wanted rate, the sender is the bottleneck."""
_TIMEOUT_S: Final = 300.0
_POLL_S: Final = 0.1


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One rate, held for one tick."""

    wanted_per_s: float
    sent_per_s: float
    left_at_end: int
    """Samples not yet handled when the last one was sent."""
    kept_up: bool
    cores: float


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """The highest rate that the aggregator handled, and all tried steps."""

    per_record: int
    samples_per_s: float
    steps: list[Step]
    feeder_limited: bool
    """The sender was the bottleneck: the aggregator handles more than this."""
    apps_limited: bool
    """These apps have no more pods to sample in a tick: the aggregator handles more than this."""


def measure(request: Request, per_record: int, folder: Path) -> Rate:
    """Measure one aggregator that is alone on its Kafka."""
    pods = Pods(request)
    # Lock-step, so that no tick closes for being late: dropped samples would look fast.
    alone = msgspec.structs.replace(request, lock_step=True)
    with measured_system(alone, folder, services=(AGGREGATOR,)) as system:
        _wait_ready(system)
        trial = _Trial(system, pods, per_record)
        try:
            return trial.run()
        finally:
            trial.close()


class _Trial:
    """One aggregator, fed step by step."""

    def __init__(self, system: MeasuredSystem, pods: Pods, per_record: int) -> None:
        self._system, self._pods, self._per_record = system, pods, per_record
        self._feeder = Feeder(system.options)
        self._sent, self._tick = 0, 0
        self._steps: list[Step] = []

    def close(self) -> None:
        self._feeder.close()

    def run(self) -> Rate:
        """Double the rate until the aggregator lags, then bisect."""
        self._feeder.publish(self._pods.prologue)
        # The prologue has one batch of samples per domain, which the aggregator counts, too.
        self._sent += len(self._pods.apps)
        self._drain()
        most = min(_MOST_PER_S, self._pods.most / _STEP_S)
        handled_rate, failed_rate, rate = 0.0, 0.0, min(most, _FIRST_PER_S[self._per_record])
        # A first step that doesn't count: kernels are compiled in it.
        self._step(rate)
        self._steps.clear()
        limited = False
        for _ in range(12):
            step = self._step(rate)
            limited = step.sent_per_s < _FEEDER_SHARE * rate
            if step.kept_up:
                handled_rate = max(handled_rate, step.sent_per_s)
            else:
                failed_rate = rate
                break
            if limited or rate >= most:
                break
            rate = min(most, 2 * rate)
        # Without a rate on both sides there is nothing to bisect.
        for _ in range(_FINE_STEPS if failed_rate and handled_rate else 0):
            rate = (handled_rate + failed_rate) / 2
            step = self._step(rate)
            handled_rate, failed_rate = (
                (step.sent_per_s, failed_rate) if step.kept_up else (handled_rate, rate)
            )
        return Rate(
            per_record=self._per_record,
            samples_per_s=handled_rate,
            steps=self._steps,
            feeder_limited=limited and not failed_rate,
            apps_limited=rate >= self._pods.most / _STEP_S and not (limited or failed_rate),
        )

    def _step(self, rate: float) -> Step:
        """Feed one tick at a rate, then wait until the aggregator has handled it."""
        self._tick += 1
        records = self._pods.records(self._tick, int(rate * _STEP_S), self._per_record)
        # One record per domain has pod counts and no samples.
        samples = (len(records) - len(self._pods.apps)) * self._per_record
        pid = {AGGREGATOR: self._system.pids[AGGREGATOR]}
        before = read_cpu(pid)
        seconds = self._feeder.feed(records, _STEP_S)
        cores = usage_since(before, pid)[AGGREGATOR].cores
        self._sent += len(records)
        # Before the drain: what is left now is the lag at the end of the step.
        left = (self._sent - self._handled()) * self._per_record
        self._drain()
        step = Step(
            wanted_per_s=rate,
            sent_per_s=samples / seconds,
            left_at_end=left,
            kept_up=left <= _BEHIND_S * samples / seconds,
            cores=cores,
        )
        self._steps.append(step)
        return step

    def _drain(self) -> None:
        deadline = time.monotonic() + _TIMEOUT_S
        while self._handled() < self._sent:
            self._system.check()
            if time.monotonic() > deadline:
                raise InputError("the aggregator did not handle all samples in time")
            time.sleep(_POLL_S)

    def _handled(self) -> int:
        return handled(_metrics(self._system.spec(AGGREGATOR).url))


def handled(text: str) -> int:
    """Sample records that the aggregator has handled, from its exported metrics."""
    topic = topic_of(MetricsSampled).name
    return int(
        sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == "hirl_events_total"
            and sample.labels == {"topic": topic, "outcome": "handled"}
        )
    )


def _metrics(url: str) -> str:
    with urlopen(f"{url}/metrics", timeout=30) as answer:  # noqa: S310  (a URL of our own)
        text: str = answer.read().decode()
        return text


def _wait_ready(system: MeasuredSystem) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    while not is_ready(system.spec(AGGREGATOR).url):
        system.check()
        if time.monotonic() > deadline:
            raise InputError("the aggregator did not become ready")
        time.sleep(_POLL_S)

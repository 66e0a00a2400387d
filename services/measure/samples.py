"""How many samples of pods one aggregator takes a second: fed faster and faster until it lags."""

import time
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from models.inputs.errors import InputError
from schemas.metrics_sampled import MetricsSampled
from schemas.topics import topic_of
from services.devcluster.request import Request
from services.devcluster.supervisor import is_ready
from services.measure.feeding import Feeder, Pods
from services.measure.testbed import Stage, staged
from services.measure.usage import read_cpu, use_since

BATCHED: Final = 500
SINGLE: Final = 1
AGGREGATOR: Final = "aggregator"
_STEP_S: Final = 10.0
"""A tick: it opens with a step and closes at its end, as it would."""
_FIRST_PER_S: Final = {BATCHED: 10_000, SINGLE: 250}
_MOST_PER_S: Final = 640_000.0
_FINE_STEPS: Final = 2
"""Halvings between the last rate that went well and the first that did not."""
_BEHIND_S: Final = 1.0
"""More than so much not yet handled when the last record is sent is a lag that grows."""
_FEEDER_SHARE: Final = 0.9
_PATIENCE_S: Final = 300.0
_POLL_S: Final = 0.1


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One rate, for one tick."""

    wanted_per_s: float
    sent_per_s: float
    left_at_end: int
    """Samples not yet handled when the last was sent."""
    kept_up: bool
    cores: float


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """The fastest that went well, with everything that was tried."""

    per_record: int
    samples_per_s: float
    steps: list[Step]
    feeder_limited: bool
    """The sender was the slower one: the aggregator takes more than this."""
    apps_limited: bool
    """It takes more than this, but these apps have no more pods to be sampled in a tick."""


def measure(request: Request, per_record: int, folder: Path) -> Rate:
    """On a Kafka with nobody but one aggregator."""
    pods = Pods(request)
    # In lock-step nothing is closed for being late: what lags would be dropped, and look fast.
    alone = msgspec.structs.replace(request, lock_step=True)
    with staged(alone, folder, services=(AGGREGATOR,)) as stage:
        _wait_ready(stage)
        trial = _Trial(stage, pods, per_record)
        try:
            return trial.run()
        finally:
            trial.close()


class _Trial:
    """Step by step."""

    def __init__(self, stage: Stage, pods: Pods, per_record: int) -> None:
        self._stage, self._pods, self._per_record = stage, pods, per_record
        self._feeder = Feeder(stage.options)
        self._sent, self._tick = 0, 0
        self._steps: list[Step] = []

    def close(self) -> None:
        self._feeder.close()

    def run(self) -> Rate:
        """Double until it lags, then look in between."""
        self._feeder.publish(self._pods.prologue)
        self._sent += len(self._pods.apps)
        self._drain()
        most = min(_MOST_PER_S, self._pods.most / _STEP_S)
        good, bad, rate = 0.0, 0.0, min(most, _FIRST_PER_S[self._per_record])
        self._step(rate)  # the first tick compiles
        self._steps.clear()
        limited = False
        for _ in range(12):
            step = self._step(rate)
            limited = step.sent_per_s < _FEEDER_SHARE * rate
            if step.kept_up:
                good = max(good, step.sent_per_s)
            else:
                bad = rate
                break
            if limited or rate >= most:
                break
            rate = min(most, 2 * rate)
        for _ in range(_FINE_STEPS if bad and good else 0):
            rate = (good + bad) / 2
            step = self._step(rate)
            good, bad = (step.sent_per_s, bad) if step.kept_up else (good, rate)
        return Rate(
            per_record=self._per_record,
            samples_per_s=good,
            steps=self._steps,
            feeder_limited=limited and not bad,
            apps_limited=rate >= self._pods.most / _STEP_S and not (limited or bad),
        )

    def _step(self, rate: float) -> Step:
        """Feed one tick at a rate; then let the aggregator finish it."""
        self._tick += 1
        records = self._pods.records(self._tick, int(rate * _STEP_S), self._per_record)
        samples = (len(records) - len(self._pods.apps)) * self._per_record
        pid = {AGGREGATOR: self._stage.pids[AGGREGATOR]}
        before = read_cpu(pid)
        seconds = self._feeder.feed(records, _STEP_S)
        cores = use_since(before, pid)[AGGREGATOR].cores
        self._sent += len(records)
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
        deadline = time.monotonic() + _PATIENCE_S
        while self._handled() < self._sent:
            self._stage.check()
            if time.monotonic() > deadline:
                raise InputError("the aggregator does not finish what it was sent")
            time.sleep(_POLL_S)

    def _handled(self) -> int:
        return handled(_metrics(self._stage.spec(AGGREGATOR).url))


def handled(text: str) -> int:
    """Records of samples that the aggregator is done with, from what it exports."""
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


def _wait_ready(stage: Stage) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not is_ready(stage.spec(AGGREGATOR).url):
        stage.check()
        if time.monotonic() > deadline:
            raise InputError("the aggregator does not get ready")
        time.sleep(_POLL_S)

"""Ask running services over HTTP: readiness, lag and event age; progress and results of the run."""

from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPException
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.error import URLError
from urllib.request import urlopen

import msgspec
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from services.devcluster.record import SIMCLUSTER, Run, ServiceSpec
from services.simcluster.target import Entry

if TYPE_CHECKING:
    from services.simcluster.score import Results

T = TypeVar("T")


class ServiceMetrics(NamedTuple):
    """Metrics of one service; from the last two, the next reading computes a mean since this."""

    ready: bool
    lag: int | None = None
    """Records not yet consumed; None if the service consumes none or doesn't answer."""
    age_s: float | None = None
    """Mean age of consumed records since the previous reading, or since the service's start."""
    records: float = 0.0
    """Records consumed since the start."""
    age_sum_s: float = 0.0
    """Sum of their ages."""
    breakers: Mapping[str, str] = {}
    """What limits decisions, by scope: the state of a breaker that is not closed, and its level."""


class Progress(NamedTuple):
    """Progress of the simulated cluster."""

    tick: int
    """The current tick."""
    closed: int
    """The newest tick that every domain has closed; -1 before the first."""


def is_ready(url: str) -> bool:
    """Whether a service answers its readiness probe."""
    return _answers(f"{url}/readyz")


def is_alive(url: str) -> bool:
    """Whether a service answers its liveness probe."""
    return _answers(f"{url}/healthz")


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=1) as answer:  # noqa: S310  (a URL of our own)
            return bool(answer.status == 200)
    except (URLError, OSError, HTTPException):
        return False


def read_metrics(spec: ServiceSpec, previous: ServiceMetrics | None = None) -> ServiceMetrics:
    """Metrics of a service now; `previous` is the last reading."""
    # It exports the metrics of its apps, not its own.
    if spec.name == SIMCLUSTER:
        return ServiceMetrics(is_ready(spec.url))
    text = _get(f"{spec.url}/metrics", timeout_s=2)
    return ServiceMetrics(ready=False) if text is None else parse_metrics(text.decode(), previous)


def parse_metrics(text: str, previous: ServiceMetrics | None) -> ServiceMetrics:
    """Metrics of a service from the text that it exports."""
    samples = list(_samples(text))
    lags = [one.value for one in samples if one.name == "hirl_consumer_lag_records"]
    ready = any(one.value == 1 for one in samples if one.name == "hirl_ready")
    records = sum(one.value for one in samples if one.name == "hirl_event_age_seconds_count")
    age_sum_s = sum(one.value for one in samples if one.name == "hirl_event_age_seconds_sum")
    # Counters that went down mean a restart: begin again from zero.
    restarted = previous is None or previous.records > records
    last = ServiceMetrics(ready=False) if previous is None or restarted else previous
    new = records - last.records
    age = (age_sum_s - last.age_sum_s) / new if new > 0 else None
    lag = int(sum(lags)) if lags else None
    return ServiceMetrics(ready, lag, age, records, age_sum_s, _breakers(samples))


def _breakers(samples: Sequence[Sample]) -> dict[str, str]:
    limits: dict[str, list[str]] = {}
    for label, unlimited in (("state", "closed"), ("level", "policy")):
        present = (
            one.labels for one in samples if one.name == f"hirl_breaker_{label}" and one.value
        )
        for labels in present:
            if labels[label] != unlimited:
                limits.setdefault(labels["scope"], []).append(labels[label])
    return {scope: ", ".join(found) for scope, found in sorted(limits.items())}


def read_progress(run: Run) -> Progress | None:
    """Progress of the simulated cluster; None while it doesn't answer."""
    answers = [_read_domain(run, name) for name in run.simulation.domains]
    domains = [answer for answer in answers if answer is not None]
    if len(domains) < len(answers):
        return None
    # The loop is only as far as its slowest domain.
    return Progress(domains[0].cluster_tick, min(domain.closed_tick for domain in domains))


def read_results(run: Run) -> "Results | None":
    """The figures of the run so far; None while the simulated cluster doesn't answer."""
    # The models are slow to import, and `hirl status` needs none.
    from services.simcluster.score import Results  # noqa: PLC0415

    return _decoded(_get(f"{run.cluster_url}/v1/results", timeout_s=30), Results)


def read_journal(run: Run) -> list[Entry]:
    """Every write that the simulated cluster received, in order."""
    lines = (_get(f"{run.cluster_url}/v1/journal", timeout_s=60) or b"").splitlines()
    return [msgspec.json.decode(line, type=Entry) for line in lines]


class _Domain(msgspec.Struct, frozen=True):
    cluster_tick: int
    closed_tick: int


def _read_domain(run: Run, name: str) -> _Domain | None:
    return _decoded(_get(f"{run.cluster_url}/v1/domains/{name}", timeout_s=5), _Domain)


def _decoded(body: bytes | None, kind: type[T]) -> T | None:
    return None if body is None else msgspec.json.decode(body, type=kind)


def _get(url: str, timeout_s: float) -> bytes | None:
    try:
        with urlopen(url, timeout=timeout_s) as answer:  # noqa: S310  (a URL of our own)
            body: bytes = answer.read()
            return body
    # HTTPException: a process that is killed while it answers.
    except (OSError, HTTPException):
        return None


def _samples(text: str) -> Iterator[Sample]:
    for family in text_string_to_metric_families(text):
        yield from family.samples

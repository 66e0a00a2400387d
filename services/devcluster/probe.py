"""What services say about themselves: whether they are ready, how far behind, how old their news.

And what the simulated cluster says about the run.
"""

from collections.abc import Iterator
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.request import urlopen

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from services.devcluster.record import SIMCLUSTER, Run, Spec
from services.devcluster.supervisor import is_ready
from services.simcluster.target import Entry

if TYPE_CHECKING:
    from services.simcluster.score import Results

T = TypeVar("T")


class Vitals(NamedTuple):
    """Of one service."""

    ready: bool
    lag: int | None = None
    """Records not yet consumed; None where nothing is consumed or nobody answers."""
    age_s: float | None = None
    """Mean age of the records that were taken, since the last look or since the start."""
    taken: float = 0.0
    """Records since the start, and the sum of their ages: what the next look begins with."""
    ages: float = 0.0


class Progress(NamedTuple):
    """How far the simulated cluster has come."""

    tick: int
    """At which it is."""
    closed: int
    """The newest tick that every domain has closed; -1 before the first."""


def vitals_of(spec: Spec, before: Vitals | None = None) -> Vitals:
    """Ask a service; `before` is the last answer."""
    if spec.name == SIMCLUSTER:  # its metrics are those of its apps
        return Vitals(is_ready(spec.url))
    text = _get(f"{spec.url}/metrics", timeout_s=2)
    return Vitals(ready=False) if text is None else _vitals(text.decode(), before)


def progress_of(run: Run) -> Progress | None:
    """Ask the simulated cluster; None while it does not answer."""
    found = [_domain(run, name) for name in run.scene.domains]
    known = [one for one in found if one is not None]
    if len(known) < len(found):
        return None
    return Progress(known[0].cluster_tick, min(one.closed_tick for one in known))


def results_of(run: Run) -> "Results | None":
    """The figures of the run so far; None where the cluster does not answer."""
    # The models are slow to import, and who only looks at services needs none.
    from services.simcluster.score import Results  # noqa: PLC0415

    return _decoded(_get(f"{run.cluster_url}/v1/results", timeout_s=30), Results)


def journal_of(run: Run) -> list[Entry]:
    """Every write that the simulated cluster got, in order."""
    lines = (_get(f"{run.cluster_url}/v1/journal", timeout_s=60) or b"").splitlines()
    return [msgspec.json.decode(line, type=Entry) for line in lines]


class _Domain(msgspec.Struct, frozen=True):
    cluster_tick: int
    closed_tick: int


def _domain(run: Run, name: str) -> _Domain | None:
    return _decoded(_get(f"{run.cluster_url}/v1/domains/{name}", timeout_s=5), _Domain)


def _decoded(body: bytes | None, kind: type[T]) -> T | None:
    return None if body is None else msgspec.json.decode(body, type=kind)


def _get(url: str, timeout_s: float) -> bytes | None:
    try:
        with urlopen(url, timeout=timeout_s) as answer:  # noqa: S310  (a URL of our own)
            body: bytes = answer.read()
            return body
    except (OSError, HTTPException):
        return None


def _vitals(text: str, before: Vitals | None) -> Vitals:
    samples = list(_samples(text))
    lags = [value for name, value in samples if name == "hirl_consumer_lag_records"]
    ready = any(value == 1 for name, value in samples if name == "hirl_ready")
    taken = sum(value for name, value in samples if name == "hirl_event_age_seconds_count")
    ages = sum(value for name, value in samples if name == "hirl_event_age_seconds_sum")
    last = before if before is not None and before.taken <= taken else Vitals(ready=False)
    new = taken - last.taken
    age = (ages - last.ages) / new if new > 0 else None
    return Vitals(ready, int(sum(lags)) if lags else None, age, taken, ages)


def _samples(text: str) -> Iterator[tuple[str, float]]:
    for family in text_string_to_metric_families(text):
        found: Any = family.samples
        for sample in found:
            yield sample.name, sample.value

"""A proxy between the collector and the cluster it measures: it falsifies metrics.

It sees the true ones pass, so it also knows what each app really used and what its pods
can carry: the audit's measure of a decrease that takes away what an app needs.
"""

import json
from datetime import datetime, timedelta
from math import nan
from typing import Any, Final, Literal, NamedTuple

from aiohttp import web

from schemas.metrics_sampled import MEASURED
from services.measure.chaos.proxy import Proxy

MetricsFault = Literal["zero", "no rps", "NaN", "frozen", "stale", "ahead", "invalid", "repeated"]
"""zero: all measurements are 0, as of an exporter that hides its errors. no rps: requests are 0,
everything else is true. NaN: null, as JSON spells it. frozen: the numbers of an earlier tick under
the present one. stale: the batch of an earlier tick, with its time. ahead: the tick and time of an
hour later. invalid: the whole answer holds the word NaN, which is not JSON. repeated: the whole
answer of an earlier tick."""
BY_DOMAIN: Final[tuple[MetricsFault, ...]] = ("zero", "no rps", "NaN", "frozen", "stale", "ahead")
"""Faults of one domain's metrics; the others concern the whole answer."""
WHOLE: Final[tuple[MetricsFault, ...]] = ("invalid", "repeated")
BLIND: Final[frozenset[MetricsFault]] = frozenset({"zero", "NaN"})
"""Faults that leave no true measurement, so no app may be decreased because of them."""
_NUMBERS: Final[dict[str, float]] = {"zero": 0.0, "no rps": 0.0, "invalid": nan}
"""Values that replace the measured ones; for other faults they become null."""
_INVENTORY: Final = "/v1/inventory"
_OBSERVATION: Final = "/v1/observation"
_MILLI: Final = 1000
_REQUESTS: Final = ("rps", "throughput")
_AHEAD_TICKS: Final = 360
_MOST_AHEAD: Final = 2
"""Ticks: consumers follow a source that stays ahead for three, because it may be right."""


class Falsification(NamedTuple):
    """How metrics are falsified, and of which domains."""

    kind: MetricsFault
    domains: frozenset[str]


class FlakySource(Proxy):
    """Forwards requests; falsifies observations while a falsification is active."""

    def __init__(self) -> None:
        super().__init__()
        self.active: Falsification | None = None
        self.used: dict[tuple[int, str], float] = {}
        """Cores that an app really used, by tick and app."""
        self.full_at: dict[str, float] = {}
        """Use over request that the pods of an app are known to carry: declared by its owner or
        shown by themselves, and no more than they request."""
        self.falsified: set[tuple[int, str]] = set()
        """Ticks and domains that the active falsification has changed."""
        self._kept: dict[str, Any] = {}
        """The last true answer before the falsification began."""

    def falsify_as(self, falsification: Falsification) -> None:
        """Falsify from now on."""
        self.falsified = set()
        self.active = falsification

    def stop(self) -> frozenset[tuple[int, str]]:
        """Forward true metrics again; returns the ticks and domains that were falsified."""
        self.active = None
        return frozenset(self.falsified)

    async def respond(self, request: web.Request) -> web.StreamResponse:
        """Forward a request, and falsify the observation in the answer."""
        answer = await self.forward(request)
        if request.path not in (_INVENTORY, _OBSERVATION) or answer.status != 200:
            return answer
        found = json.loads(answer.body if isinstance(answer.body, bytes) else b"{}")
        if request.path == _INVENTORY:
            self._learn_declared(found)
            return answer
        self._learn_declared(found["declared"])
        self._learn(found)
        text = self.falsify(found)
        return web.Response(body=text.encode(), content_type="application/json")

    def falsify(self, found: dict[str, Any]) -> str:
        """The answer as the collector gets it."""
        active = self.active
        if active is None or found["finished"]:
            self._kept = found
            return json.dumps(found)
        if active.kind == "repeated":
            return json.dumps(self._kept or found)
        sampled = {batch["domain"]: batch for batch in self._kept.get("sampled", ())}
        ticks = {tick for tick, _ in self.falsified}
        if active.kind == "ahead" and len(ticks) >= _MOST_AHEAD:
            return json.dumps(found)
        batches = []
        for batch in found["sampled"]:
            domain = batch["domain"]
            if domain not in active.domains:
                batches.append(batch)
                continue
            self.falsified.add((found["tick"], domain))
            batches.append(falsified(batch, active.kind, sampled.get(domain, batch)))
        return json.dumps(found | {"sampled": batches})

    def _learn_declared(self, declared: list[dict[str, Any]]) -> None:
        for one in declared:
            self._carries(one["app"], one.get("saturation", 1.0))

    def _learn(self, found: dict[str, Any]) -> None:
        for batch in found["sampled"]:
            columns = (
                batch[name] for name in ("apps", "cpu_cores", "measured_pods", "cpu_request")
            )
            for app, cores, pods, request in zip(*columns, strict=True):
                if cores is not None:
                    self.used[found["tick"], app] = cores
                if cores is not None and pods and request:
                    self._carries(app, cores / (pods * request / _MILLI))

    def _carries(self, app: str, use: float) -> None:
        self.full_at[app] = min(1.0, max(self.full_at.get(app, 0.0), use))


def falsified(batch: dict[str, Any], kind: MetricsFault, earlier: dict[str, Any]) -> dict[str, Any]:
    """A batch of samples with other numbers; `earlier` is a true one of the domain."""
    if kind == "stale":
        return earlier
    if kind == "frozen":
        # Other apps than before would not fit the columns.
        same = earlier["apps"] == batch["apps"]
        return batch | {name: earlier[name] for name in MEASURED if same}
    if kind == "ahead":
        return batch | _ahead(batch)
    names = _REQUESTS if kind == "no rps" else MEASURED
    value = _NUMBERS.get(kind)
    return batch | {name: [value] * len(batch["apps"]) for name in names}


def _ahead(batch: dict[str, Any]) -> dict[str, Any]:
    later = datetime.fromisoformat(batch["time"]) + timedelta(hours=1)
    time = later.isoformat().replace("+00:00", "Z")
    return {"tick": batch["tick"] + _AHEAD_TICKS, "time": time}

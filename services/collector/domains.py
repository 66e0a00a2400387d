"""ScalingDomains as the domains of all services: composed into a file, and stored for them.

The file is a ConfigMap that services have mounted. They end when it changes, and start again with
the new domains: the number of domains is in the shape of all that they compute.
"""

import logging
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import msgspec
import yaml

from models.cluster.description import (
    Cluster,
    Domain,
    Domains,
    Slo,
    expect_one_of,
    with_domains,
)
from services._kit.clock import Clock
from services._kit.http import MALFORMED
from services._kit.kubernetes.client import Denied, KubernetesApi, Unreachable, encoded
from services._kit.kubernetes.sizes import path_of
from services.collector.profiles import DomainSpec, ScalingDomain, Verdict

log = logging.getLogger(__name__)

KEY: Final = "domains.yaml"
_SETTLE_S: Final = 30.0
"""Domains are applied one after the other; each change restarts every service."""
_REREAD_S: Final = 60.0
"""Others may change the ConfigMap, or remove it and make it again."""
_TIERS: Final = ("apps",)
"""Of a domain that names none."""
_PATCH: Final = {"Content-Type": "application/merge-patch+json"}
_MANAGER: Final = {"fieldManager": "hirl-collector"}


class Composition(NamedTuple):
    """What all ScalingDomains come to."""

    cluster: Cluster
    """With their domains; as the file describes it if there are none or one is refused."""
    text: str
    """File of the domains; empty if there are none."""
    refused: Mapping[str, Verdict]
    """By name of the domain. One is enough for all of them to wait: without it, its apps would
    belong to no domain."""


def compose(file: Cluster, found: Iterable[ScalingDomain]) -> Composition:
    """The domains of all resources, in the order of the file and then of their names."""
    place = {name: index for index, name in enumerate(file.domain_names)}
    ordered = sorted(found, key=lambda o: (place.get(o.metadata.name, len(place)), o.metadata.name))
    if not ordered:
        return Composition(file, "", {})
    domains: list[Domain] = []
    refused: dict[str, Verdict] = {}
    for one in ordered:
        try:
            domains.append(_domain_of(one, file))
        except ValueError as error:
            refused[one.metadata.name] = Verdict(False, "Invalid", str(error))
    if refused:
        return Composition(file, "", refused)
    try:
        cluster = with_domains(file, tuple(domains))
    except ValueError as error:
        together = Verdict(False, "InvalidTogether", str(error))
        return Composition(file, "", {one.metadata.name: together for one in ordered})
    content = msgspec.to_builtins(Domains(domains=cluster.domains))
    return Composition(cluster, yaml.safe_dump(content, sort_keys=False), {})


def _domain_of(found: ScalingDomain, file: Cluster) -> Domain:
    """What the resource leaves out is as the file has it for the domain of the name."""
    spec, name = found.spec, found.metadata.name
    for pool in spec.pools:
        expect_one_of("spec.pools", pool, set(file.pool_names))
    known = next((one for one in file.domains if one.name == name), None)
    fields = {"tiers": _TIERS} if known is None else msgspec.structs.asdict(known)
    given = {
        "title": spec.title,
        "tiers": spec.tiers,
        "survive": spec.survive,
        "slo": _slo_of(spec, Slo() if known is None else known.slo),
    }
    fields |= {key: value for key, value in given.items() if value}
    fields |= {"name": name, "priority": spec.priority, "floor_share": spec.floor_share}
    return msgspec.convert({**fields, "pools": spec.pools}, Domain)


def _slo_of(spec: DomainSpec, known: Slo) -> Slo:
    if spec.slo is None:
        return known
    target = spec.slo.latency_target_ms or known.latency_target_ms
    return msgspec.convert({"kind": spec.slo.kind, "latency_target_ms": target}, Slo)


class _ConfigMap(msgspec.Struct, frozen=True):
    data: dict[str, str] = {}


class DomainStore:
    """The ConfigMap at `place` (namespace/name) that the services have mounted."""

    def __init__(
        self, api: KubernetesApi, clock: Clock, place: str, settle_s: float = _SETTLE_S
    ) -> None:
        self._api, self._clock, self.place, self._settle = api, clock, place, settle_s
        self.text: str | None = None
        """What is stored; None: not known."""
        self._read_at = 0.0
        self._wanted: tuple[str, float] = "", 0.0
        """What was composed last, and since when it has been the same."""

    async def read(self) -> None:
        """Take in what is stored now; raises Unreachable."""
        try:
            found = await self._api.get(path_of(self.place), _ConfigMap)
        except Denied as error:
            log.warning("ConfigMap %s: %s", self.place, error)
            found = None
        self._read_at = self._clock.now()
        self.text = None if found is None else found.data.get(KEY, "")
        if found is None:
            log.warning("there is no ConfigMap %s: ScalingDomains do not count", self.place)

    def cluster(self, file: Cluster) -> Cluster:
        """The cluster as services have it by now."""
        try:
            stored = yaml.safe_load(self.text or "")
            return with_domains(file, msgspec.convert(stored, Domains).domains) if stored else file
        except (yaml.YAMLError, ValueError, *MALFORMED) as error:
            log.warning("%s is not understood, and is written again: %s", self.place, error)
            return file

    async def store(self, text: str) -> str:
        """Store a file that has been wanted for long enough; return what failed."""
        if self._clock.now() - self._read_at >= _REREAD_S:
            try:
                await self.read()
            except Unreachable as error:
                return str(error)
        if self.text is None or text == self.text:
            return ""
        if self._wanted[0] != text or not self._wanted[1]:
            self._wanted = text, self._clock.now()
        if self._clock.now() - self._wanted[1] < self._settle:
            return ""
        # Null removes the key.
        body: dict[str, Any] = {"data": {KEY: text or None}}
        try:
            answer = await self._api.request(
                "PATCH", path_of(self.place), _MANAGER, encoded(body), _PATCH
            )
        except Unreachable as error:
            return str(error)
        if answer.status != HTTPStatus.OK:
            return f"the API server answers {answer.status}: {answer.message}"
        log.warning("the domains of all services are others now: %s", self.place)
        self.text = text
        return ""

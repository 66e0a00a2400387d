"""Custom resources as declarations, and what is said about each in its status. No IO."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import field

from models.cluster.description import PRIORITIES, Cluster, Domain
from models.control.tuned import tuned_parameters
from schemas.app_declared import AppDeclared, RequestMix
from schemas.fields import Mode
from services._kit.kubernetes.adoption import DOMAIN
from services._kit.kubernetes.objects import ObjectMeta
from services.collector.workloads import App, Key


class _Part(msgspec.Struct, frozen=True, rename="camel"):
    """The CRD's schema has checked what is in it."""


class Condition(_Part, frozen=True):
    """A condition of a status, as far as we read it."""

    type: str
    status: str
    last_transition_time: str = ""


class Status(_Part, frozen=True):
    """What we said before, also before a restart."""

    app: str = ""
    conditions: tuple[Condition, ...] = ()


class Target(_Part, frozen=True):
    """A workload of the profile's namespace."""

    kind: str
    name: str


class Promise(_Part, frozen=True):
    """What a workload promises."""

    latency_seconds: float | None = None


class ProfileSpec(_Part, frozen=True):
    """Fields of `AppDeclared`; what is absent stays as annotations have it."""

    target_ref: Target
    domain: str
    min_replicas: int | None = None
    max_replicas: int | None = None
    slo: Promise = field(default_factory=Promise)
    saturation: float | None = None
    tier: int | None = None
    request_mix: RequestMix | None = None
    mode: Mode | None = None
    paused: str | None = None


class DomainSlo(_Part, frozen=True):
    """SLO class of a domain."""

    kind: str = "latency"
    latency_target_ms: float | None = None


class DomainSpec(_Part, frozen=True):
    """Fields of a domain of the cluster file."""

    priority: str
    floor_share: float
    pools: tuple[str, ...]
    title: str = ""
    tiers: tuple[str, ...] | None = None
    survive: str | None = None
    slo: DomainSlo | None = None


class WorkloadProfile(_Part, frozen=True):
    """What an owner declares about a workload."""

    metadata: ObjectMeta
    spec: ProfileSpec
    status: Status = field(default_factory=Status)

    @property
    def key(self) -> Key:
        """The workload that it is about."""
        return self.spec.target_ref.kind, self.metadata.namespace, self.spec.target_ref.name


class ScalingDomain(_Part, frozen=True):
    """A domain, as operators of the cluster see it."""

    metadata: ObjectMeta
    spec: DomainSpec
    status: Status = field(default_factory=Status)


class Verdict(NamedTuple):
    """Whether a resource takes effect, and why."""

    accepted: bool
    reason: str
    """One word, for programs."""
    message: str
    declared: AppDeclared | None = None
    """With the profile's fields, if it takes effect."""


def judge_profiles(
    profiles: Iterable[WorkloadProfile], apps: Mapping[Key, App], domains: Sequence[str]
) -> dict[str, Verdict]:
    """A verdict for each profile, by uid. Of two with one target the older one counts."""
    owners: dict[Key, str] = {}
    found: dict[str, Verdict] = {}
    for one in sorted(profiles, key=_age):
        found[one.metadata.uid] = _judge(one, owners.get(one.key), apps.get(one.key), domains)
        owners.setdefault(one.key, one.metadata.name)
    return found


def _age(profile: WorkloadProfile) -> tuple[str, str]:
    return profile.metadata.creation_timestamp, profile.metadata.name


def _judge(
    profile: WorkloadProfile, older: str | None, app: App | None, domains: Sequence[str]
) -> Verdict:
    kind, namespace, name = profile.key
    domain = profile.spec.domain
    label = f"kubectl label {kind.lower()} {name} -n {namespace} --overwrite {DOMAIN}={domain}"
    if domain not in domains:
        known = ", ".join(domains)
        return Verdict(False, "UnknownDomain", f"no domain is called {domain}; there are {known}")
    if older is not None:
        message = f"profile {older} is older and has the same target: delete one of the two"
        return Verdict(False, "Conflict", message)
    if app is None:
        message = f"{kind} {name} is missing or has no label {DOMAIN}: {label}"
        return Verdict(False, "TargetNotFound", message)
    if app.declared.domain != domain:
        message = f"{kind} {name} has the label {DOMAIN}={app.declared.domain}: {label}"
        return Verdict(False, "DomainDiffers", message)
    declared = _with(app, profile.spec)
    least, most = declared.min_replicas, declared.max_replicas
    if most is not None and least > most:
        message = f"at least {least} and at most {most} replicas, one by annotation: give both here"
        return Verdict(False, "BoundsCross", message)
    message = f"declared as app {declared.app}"
    if not app.is_managed:
        message += "; in preview, because the workload lacks the annotation hirl.dev/managed=true"
    return Verdict(True, "InEffect", message, declared)


def _with(app: App, spec: ProfileSpec) -> AppDeclared:
    """The declaration with the fields of a profile."""
    given = {
        "min_replicas": spec.min_replicas,
        "max_replicas": spec.max_replicas,
        "latency_target_s": spec.slo.latency_seconds,
        "saturation": spec.saturation,
        "tier": spec.tier,
        "request_mix": spec.request_mix,
        # An unmanaged workload stays in preview, whatever its profile wants.
        "mode": spec.mode if app.is_managed or spec.mode == "off" else None,
        "pause": spec.paused,
    }
    fields = {name: value for name, value in given.items() if value is not None}
    return msgspec.structs.replace(app.declared, **fields)


def applied(apps: Iterable[App], verdicts: Iterable[Verdict]) -> list[App]:
    """The apps, as the profiles that take effect declare them."""
    declared = {one.declared.app: one.declared for one in verdicts if one.declared is not None}
    return [replace(app, declared=declared.get(app.declared.app, app.declared)) for app in apps]


def judge_domain(domain: ScalingDomain, cluster: Cluster) -> Verdict:
    """Whether the services, which read the cluster file, have the domain like this."""
    name = domain.metadata.name
    present = next((one for one in cluster.domains if one.name == name), None)
    if present is None:
        known = ", ".join(cluster.domain_names)
        message = f"the services' cluster file has no domain {name}; it has {known}"
        return Verdict(False, "UnknownDomain", message)
    differences = [
        f"{what} is {theirs} there" for what, ours, theirs in _compared(domain.spec, present)
        if ours != theirs
    ]  # fmt: skip
    if differences:
        message = f"the services' cluster file differs: {', '.join(differences)}; change it there"
        return Verdict(False, "DiffersFromClusterFile", message)
    return Verdict(True, "InEffect", "the services' cluster file says the same")


def _compared(spec: DomainSpec, present: Domain) -> list[tuple[str, object, object]]:
    compared: list[tuple[str, object, object]] = [
        ("priority", spec.priority, present.priority),
        ("floorShare", spec.floor_share, present.floor_share),
        ("pools", list(spec.pools), list(present.pools)),
    ]
    if spec.tiers is not None:
        compared.append(("tiers", list(spec.tiers), list(present.tiers)))
    if spec.survive is not None:
        compared.append(("survive", spec.survive, present.survive))
    if spec.slo is not None:
        compared.append(("slo.kind", spec.slo.kind, present.slo.kind))
        if spec.slo.latency_target_ms is not None:
            ours, theirs = spec.slo.latency_target_ms, present.slo.latency_target_ms
            compared.append(("slo.latencyTargetMs", ours, theirs))
    return compared


_parameters = cache(tuned_parameters)


def sizing_of(domain: str, cluster: Cluster) -> dict[str, str]:
    """What apps of a domain are sized by: shares of the CPU use at which a pod is full."""
    parameters = _parameters()
    priorities = [PRIORITIES.index(one.priority) for one in cluster.domains if one.name == domain]
    target = parameters.target(np.array(priorities, np.int32))
    return {
        "utilisation": f"{target[0]:.2f}",
        "atRisk": f"{parameters.risk:.2f}",
        "growsBy": f"{parameters.dead_band_out:.0%}",
        "shrinksBy": f"{parameters.dead_band_in:.0%}",
    }

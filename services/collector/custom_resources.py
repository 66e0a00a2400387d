"""Our custom resources on an API server: watched, judged, and told in their status what came of it.

A cluster that does not serve them works without: then there are none.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final

from models.cluster.description import Cluster
from schemas.app_declared import AppDeclared
from schemas.breaker_changed import BreakerChanged
from schemas.budget_granted import BudgetGranted
from schemas.scale_applied import ScaleApplied
from services._kit.clock import Clock, rfc3339
from services._kit.kubernetes.client import KubernetesApi, Unreachable, encoded
from services._kit.kubernetes.watch import Mirror
from services.collector.decisions import Decisions
from services.collector.domains import Composition, DomainStore, compose
from services.collector.profiles import (
    ScalingDomain,
    Verdict,
    WorkloadProfile,
    applied,
    judge_domain,
    judge_profiles,
    sizing_of,
)
from services.collector.workloads import App

log = logging.getLogger(__name__)

ACCEPTED: Final = "Accepted"
_GROUP: Final = "/apis/hirl.dev/v1alpha1"
_HEADERS: Final = {"Content-Type": "application/merge-patch+json"}
_MANAGER: Final = {"fieldManager": "hirl-collector"}


class CustomResources:
    """ScalingDomains and WorkloadProfiles of a cluster."""

    def __init__(
        self,
        api: KubernetesApi,
        clock: Clock,
        cluster: Cluster,
        on_error: Callable[[str], None],
        store: DomainStore | None = None,
    ) -> None:
        self._api, self._clock, self._file = api, clock, cluster
        self._on_error = on_error
        self._store = store
        self._composed = Composition(cluster, "", {})
        self.domains = cluster.domain_names
        """Those that the services have, or start with within two minutes."""
        self._profiles = Mirror[WorkloadProfile](
            api, f"{_GROUP}/workloadprofiles", WorkloadProfile, lambda one: one, clock
        )
        self._domains = Mirror[ScalingDomain](
            api, f"{_GROUP}/scalingdomains", ScalingDomain, lambda one: one, clock
        )
        self.mirrors: tuple[Mirror[Any], ...] = ()
        """Empty where the API server does not serve the resources."""
        self._verdicts: dict[str, Verdict] = {}
        self._written: dict[str, dict[str, Any]] = {}
        """By uid, the status that the API server has from us."""
        self._reporting: asyncio.Task[None] | None = None
        self._budgets: dict[str, BudgetGranted] = {}
        self._breakers: dict[str, BreakerChanged] = {}
        self._decisions = Decisions(clock)

    async def find(self) -> None:
        """See whether the API server serves them."""
        served = await self._api.get(_GROUP, dict[str, Any]) is not None
        self.mirrors = (self._profiles, self._domains) if served else ()
        if served and self._store is not None:
            await self._store.read()
            self._composed = self._composed._replace(cluster=self._store.cluster(self._file))
            self.domains = self._composed.cluster.domain_names
        if not served:
            log.info("the API server has no custom resources of ours: annotations and files count")

    def is_current(self, ttl_s: float) -> bool:
        """Whether the server confirmed them within this time."""
        return all(one.is_current(ttl_s) for one in self.mirrors)

    def learn(self, event: object) -> None:
        """Take in what the bus says about a domain or its apps, for their status."""
        if isinstance(event, BudgetGranted):
            known = self._budgets.get(event.domain)
            if known is None or event.epoch >= known.epoch:
                self._budgets[event.domain] = event
        elif isinstance(event, BreakerChanged):
            self._breakers[event.scope] = event
        elif isinstance(event, ScaleApplied):
            self._decisions.learn(event)

    def declare(self, apps: Iterable[App]) -> list[App]:
        """The apps with the fields of their profiles."""
        known = list(apps)
        by_key = {one.key: one for one in known}
        if self._store is not None:
            composed = compose(self._file, self._domains.objects.values())
            # Where one is refused, what services have stays in force.
            cluster = self._composed.cluster if composed.refused else composed.cluster
            self._composed = composed._replace(cluster=cluster)
        names = self._composed.cluster.domain_names
        self._decisions.keep({one.declared.app for one in known})
        self._verdicts = judge_profiles(self._profiles.objects.values(), by_key, names)
        return applied(known, self._verdicts.values())

    def report(self, apps: Iterable[App]) -> None:
        """Write every status that has changed, without waiting for it."""
        if self._reporting is None or self._reporting.done():
            counts = Counter(app.declared.domain for app in apps)
            self._reporting = asyncio.create_task(self._report(counts))

    async def close(self) -> None:
        """Disconnect."""
        if self._reporting is not None:
            self._reporting.cancel()
            await asyncio.gather(self._reporting, return_exceptions=True)
        await self._api.close()

    async def _report(self, counts: Counter[str]) -> None:
        # First, so that statuses say what is stored.
        await self._store_domains()
        # Copies: the mirrors go on while this waits for answers.
        profiles, domains = dict(self._profiles.objects), dict(self._domains.objects)
        for uid, profile in profiles.items():
            verdict = self._verdicts.get(uid)
            if verdict is not None:
                meta = profile.metadata
                place = f"namespaces/{meta.namespace}/workloadprofiles/{meta.name}"
                await self._write(profile, place, verdict, self._of_app(profile, verdict.declared))
        for domain in domains.values():
            name = domain.metadata.name
            own = {"apps": counts[name], **self._of_the_bus(name)}
            verdict = self._judge_domain(domain)
            await self._write(domain, f"scalingdomains/{name}", verdict, own)
        present = profiles.keys() | domains.keys()
        self._written = {uid: one for uid, one in self._written.items() if uid in present}

    async def _store_domains(self) -> None:
        if self._store is not None and self.mirrors and not self._composed.refused:
            wanted = self._composed
            problem = await self._store.store(wanted.text)
            if problem:
                self._failed(self._store.place, problem)
            elif self._store.text == wanted.text:
                self.domains = wanted.cluster.domain_names

    def _judge_domain(self, domain: ScalingDomain) -> Verdict:
        store, composed = self._store, self._composed
        if store is None or store.text is None:
            return judge_domain(domain, self._file)
        name = domain.metadata.name
        if composed.refused:
            others = ", ".join(sorted(composed.refused))
            message = f"services keep their domains until {others} can be accepted"
            return composed.refused.get(name, Verdict(False, "Withheld", message))
        if composed.text != store.text:
            return Verdict(True, "Pending", "services get it when ScalingDomains rest for 30 s")
        message = f"services start with it within two minutes, from the ConfigMap {store.place}"
        return Verdict(True, "InEffect", message)

    def _of_app(self, profile: WorkloadProfile, declared: AppDeclared | None) -> dict[str, Any]:
        """Null removes a field; one that is left out stays."""
        if declared is None:
            return dict.fromkeys(("app", "mode", "sizing", "lastDecision"))
        sizing = sizing_of(declared.domain, self._composed.cluster)
        found = {"app": declared.app, "mode": declared.mode, "sizing": sizing}
        decision = self._decisions.of(declared.app)
        if decision is None and profile.status.app == declared.app:
            return found  # after a restart: what is known is what the status says
        return {**found, "lastDecision": decision}

    def _of_the_bus(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        budget, breaker = self._budgets.get(name), self._breakers.get(name)
        if budget is not None:
            # Rounded, so that not every budget is a write.
            found["budget"] = {
                "share": f"{budget.share:.1%}",
                "cores": f"{budget.cores:.0f}",
                "urgency": f"{budget.urgency:.2f}",
                "reason": budget.reasons[0] if budget.reasons else "",
            }
        if breaker is not None:
            found["breaker"] = {"state": breaker.state, "reason": breaker.reason}
        return found

    async def _write(
        self,
        resource: WorkloadProfile | ScalingDomain,
        place: str,
        verdict: Verdict,
        own: Mapping[str, Any],
    ) -> None:
        meta = resource.metadata
        status = {
            **own,
            "observedGeneration": meta.generation,
            "conditions": [
                {
                    "type": ACCEPTED,
                    "status": str(verdict.accepted),
                    "reason": verdict.reason,
                    "message": verdict.message,
                    "observedGeneration": meta.generation,
                    "lastTransitionTime": self._since(resource, str(verdict.accepted)),
                }
            ],
        }
        if self._written.get(meta.uid) == status:
            return
        path, body = f"{_GROUP}/{place}/status", encoded({"status": status})
        try:
            answer = await self._api.request("PATCH", path, _MANAGER, body, _HEADERS)
        except Unreachable as error:
            self._failed(place, str(error))
            return
        if answer.status == HTTPStatus.OK:
            self._written[meta.uid] = status
        elif answer.status != HTTPStatus.NOT_FOUND:  # deleted meanwhile
            self._failed(place, f"the API server answers {answer.status}: {answer.message}")

    def _since(self, resource: WorkloadProfile | ScalingDomain, state: str) -> str:
        """When the condition became what it is; the mirror has what was written before."""
        for one in resource.status.conditions:
            if one.type == ACCEPTED and one.status == state and one.last_transition_time:
                return one.last_transition_time
        written = self._written.get(resource.metadata.uid)
        if written is not None and written["conditions"][0]["status"] == state:
            return str(written["conditions"][0]["lastTransitionTime"])
        return f"{rfc3339(self._clock.date())[:19]}Z"

    def _failed(self, place: str, why: str) -> None:
        self._on_error("status")
        log.warning("status of %s is not written: %s", place, why)

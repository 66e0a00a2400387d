"""Resizes on a real API server, by the actuator's account: the size is stored for new pods first,
then running pods get it, and each decision is stored once. Pods are played by the tests."""

import os
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from msgspec.structs import replace

from services._kit.kubernetes.client import KubernetesApi
from services._kit.kubernetes.credentials import Access, Token, access_of
from services._kit.kubernetes.sizes import Entry, key_of
from services.actuator.kubernetes import KubernetesTarget
from services.actuator.target import Present, Write, Written
from services.lab import controlplane
from services.lab.controlplane import Lab, kubeconfig
from tests.integration.fault_proxy import FAULTS, FaultProxy
from tests.integration.lab_helpers import ROOT, AuditRecord, Cluster, Kubectl, within
from tests.kubernetes_helpers import deployment, running_loop
from tests.target_suite import answer, present, raising

_ACCOUNT: Final = "/api/v1/namespaces/hirl/serviceaccounts/actuator/token"
_SIZES: Final = "/api/v1/namespaces/hirl/configmaps/hirl-sizes"
_HASH: Final = "7f9c"
_NUMBERS: Final = count()
_TICKS: Final = 5


class Place:
    """A Deployment in a namespace, and pods as its controller would make them."""

    def __init__(self, cluster: Cluster, account: Path) -> None:
        self.cluster, self.run, self.account = cluster, cluster.run, account
        self.domain = cluster.namespace
        self.app = f"{cluster.namespace}/web"
        self._pods = f"/api/v1/namespaces/{cluster.namespace}/pods"
        manifest = deployment("web", domain=self.domain)
        (container,) = manifest["spec"]["template"]["spec"]["containers"]
        container["resources"]["limits"] = {"cpu": "500m"}
        cluster.create(manifest)

    def target(self, timeout_s: float = 5.0) -> KubernetesTarget:
        api = self.cluster.client(self.account)
        return KubernetesTarget(api, timeout_s, 30.0, 8, "hirl/hirl-sizes")

    def add_pod(self, name: str) -> dict[str, Any]:
        """As the ReplicaSet controller makes it, running at once."""
        (container,) = self.cluster.stored("web")["spec"]["template"]["spec"]["containers"]
        owner = {
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"web-{_HASH}",
            "uid": "00000000-0000-0000-0000-000000000000", "controller": True,
        }  # fmt: skip
        pod = {
            "metadata": {
                "name": name,
                "labels": {"app": "web", "pod-template-hash": _HASH},
                "ownerReferences": [owner],
            },
            "spec": {"containers": [{**container, "resources": container["resources"]}]},
        }
        return self.cluster.post(self._pods, pod)

    def gets(self, name: str, size: tuple[str, str, str]) -> bool:
        """Whether a new pod has a size; one that has another is removed."""
        made = size_of(self.add_pod(name)) == size
        if not made:
            self.run(self.cluster.api.request("DELETE", f"{self._pods}/{name}"))
        return made

    def pod_size(self, name: str) -> tuple[str, str, str]:
        """CPU, memory, and the limit of CPU."""
        found = self.run(self.cluster.api.get(f"{self._pods}/{name}", dict[str, Any]))
        return size_of(found)

    def say(self, name: str, cpu: str, deferred: str = "") -> None:
        """As its kubelet: what the pod has, and why not what it was asked to have."""
        requests = {"cpu": cpu, "memory": "512Mi"}
        state = {"running": {"startedAt": "2026-11-19T00:00:00Z"}}
        container = {
            "name": "app", "image": "app", "imageID": "", "ready": True, "restartCount": 0,
            "state": state, "resources": {"requests": requests},
        }  # fmt: skip
        pending = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
        conditions = [{**pending, "message": deferred}] if deferred else []
        status = {"containerStatuses": [container], "conditions": conditions}
        assert self.cluster.patch(f"{self._pods}/{name}/status", {"status": status}) == 200

    def entry(self) -> Entry | None:
        found = self.run(self.cluster.api.get(_SIZES, dict[str, Any]))
        text = found.get("data", {}).get(key_of(self.app))
        return None if text is None else Entry.parse(text)

    def resizing(self, now: Present, cpu: int, tick: int = 0) -> Write:
        write = raising(self, now, tick, by=0)
        (change,) = write.changes
        return replace(write, changes=[replace(change, cpu_request=cpu)])

    def made(self) -> int:
        return self.cluster.changes("web")


def size_of(pod: dict[str, Any]) -> tuple[str, str, str]:
    (container,) = pod["spec"]["containers"]
    resources = container["resources"]
    requests = resources["requests"]
    return requests["cpu"], requests["memory"], resources["limits"]["cpu"]


@pytest.fixture(scope="module")
def account(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The component on top of the overlay, and a kubeconfig of the actuator's account."""
    lab = controlplane.restart(Path(lab.home))
    kubectl, folder = Kubectl(lab.kubeconfig), tmp_path_factory.mktemp("overlay")
    infra = os.path.relpath(ROOT / "infra" / "k8s", folder.resolve())
    (folder / "kustomization.yaml").write_text(
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: hirl\n"
        f"resources: [{infra}/overlays/kubernetes]\ncomponents: [{infra}/vertical]\n"
    )
    kubectl("apply", "-k", str(folder))
    with running_loop() as run:
        cluster = Cluster(lab, run, "resize-account")
        token = cluster.post(_ACCOUNT, {"spec": {}})["status"]["token"]
        yield kubeconfig(lab, token, folder / "config")
        # Other tests show that without the component nothing of this is permitted.
        kubectl("-n", "hirl", "delete", "--wait=false", "-f", "infra/k8s/vertical/hirl.yaml")
        cluster.close()


@pytest.fixture
def place(lab: Lab, account: Path) -> Iterator[Place]:
    with running_loop() as run:
        cluster = Cluster(controlplane.restart(Path(lab.home)), run, f"resize-{next(_NUMBERS)}")
        yield Place(cluster, account)
        cluster.close()


def test_the_size_is_stored_then_running_pods_get_it_and_new_ones_have_it(place: Place) -> None:
    place.add_pod("old")
    target = place.target()
    now = present(place, target)
    assert (now.cpu_request, now.memory_request) == (250, 512)
    assert answer(place, target, place.resizing(now, 400)) == "applied"
    entry = place.entry()
    assert entry is not None
    assert (entry.cpu, entry.memory) == (400, 512)
    assert entry.decision == f"{place.domain}/0/3/heuristic/2"
    # Limits keep their ratio, so that a pod keeps its class.
    assert place.pod_size("old") == ("400m", "512Mi", "800m")
    # The policy is enforced a moment after it was stored.
    names = (f"new-{number}" for number in count())
    assert within(30, lambda: place.gets(next(names), ("400m", "512Mi", "800m")))
    assert present(place, target, 1).cpu_request == 400
    # The Deployment itself stays as it is: no rollout begins.
    assert place.made() == 0
    writes = [
        one.object_ref["resource"] + "/" + one.object_ref.get("subresource", "")
        for one in resizes(place)
    ]
    assert writes == ["configmaps/", "pods/resize"]
    place.run(target.close())


def resizes(place: Place, code: int = 200) -> list[Any]:
    """What our account stored for this app, in order, by the journal of the server."""
    found = []
    for line in place.cluster.lab.audit_log.read_bytes().splitlines():
        record = msgspec.json.decode(line, type=AuditRecord)
        if (
            record.audit_id.startswith(f"{place.domain}/")
            and record.stage == "ResponseComplete"
            and record.response_status.get("code") == code
            and "dryRun" not in record.request_uri
        ):
            found.append(record)
    return found


def test_what_died_between_storing_and_resizing_is_finished_by_the_next(place: Place) -> None:
    first = place.target()
    write = place.resizing(present(place, first), 300)
    assert answer(place, first, write) == "applied"
    # A pod that was not resized when the process died.
    place.cluster.patch(_SIZES, {"data": {key_of(place.app): None}})
    place.add_pod("left")
    again = place.target()
    entry = Entry("app", ("250m", "512Mi"), 300, 512, ("600m", "-"), write.changes[0].decision_id)
    place.cluster.patch(_SIZES, {"data": {key_of(place.app): str(entry)}})
    assert answer(place, again, write) == "repeat"
    assert place.pod_size("left") == ("300m", "512Mi", "600m")
    for one in (first, again):
        place.run(one.close())


def test_a_resize_that_a_kubelet_defers_does_not_count_as_done(place: Place) -> None:
    place.add_pod("small")
    target = place.target()
    assert answer(place, target, place.resizing(present(place, target), 400)) == "applied"
    place.say("small", "250m", "Node didn't have enough resource: cpu")
    now = present(place, target, 1)
    assert now.cpu_request == 250
    written = place.run(target.carry_out(place.resizing(now, 400, 1)))
    said = "1 of 1 pods have another size (Deferred: Node didn't have enough resource: cpu)"
    assert written.reasons == {place.app: f"hold-resize-waits: {said}"}
    # Meanwhile more pods may be what is needed.
    assert answer(place, target, raising(place, present(place, target, 2), 2)) == "applied"
    place.say("small", "400m")
    assert present(place, target, 3).cpu_request == 400
    stored = [one for one in resizes(place) if one.object_ref["resource"] == "configmaps"]
    assert len(stored) == 1
    place.run(target.close())


def test_the_owners_next_release_wins(place: Place) -> None:
    target = place.target()
    assert answer(place, target, place.resizing(present(place, target), 400)) == "applied"
    container = {"name": "app", "resources": {"requests": {"cpu": "350m", "memory": "512Mi"}}}
    template = {"spec": {"containers": [{**container, "image": "app"}]}}
    patch = {"spec": {"template": template}}
    assert place.cluster.patch(place.cluster.path("web"), patch) == 200
    fresh = place.target()
    now = present(place, fresh, 1)
    assert now.cpu_request == 350
    (made,) = place.add_pod("released")["spec"]["containers"]
    assert made["resources"]["requests"]["cpu"] == "350m"
    assert answer(place, fresh, place.resizing(now, 450, 1)) == "applied"
    assert present(place, fresh, 2).cpu_request == 450
    for one in (target, fresh):
        place.run(one.close())


def test_a_trial_stores_nothing(place: Place) -> None:
    place.add_pod("old")
    target = place.target()
    write = place.resizing(present(place, target), 400)
    found = place.run(target.carry_out(replace(write, changes=[], trials=write.changes)))
    assert isinstance(found, Written)
    assert found.trials == {place.app: "the API server would take the change"}
    assert place.entry() is None
    assert place.pod_size("old")[0] == "250m"
    place.run(target.close())


def test_the_second_lock_keeps_pods_from_becoming_many_times_as_large(place: Place) -> None:
    place.add_pod("old")
    target = place.target()

    def refused() -> bool:
        write = place.resizing(present(place, target), 1200)
        found = place.run(target.carry_out(replace(write, changes=[], trials=write.changes)))
        return "at most fourfold" in found.trials.get(place.app, "")

    # The policy is enforced a moment after it was stored.
    assert within(30, refused) or pytest.fail("a fivefold resize is admitted")
    place.run(target.close())


def test_replicas_and_size_are_not_written_together(place: Place) -> None:
    target = place.target()
    now = present(place, target)
    write = raising(place, now)
    (change,) = write.changes
    both = replace(write, changes=[replace(change, cpu_request=300)])
    found = place.run(target.carry_out(both))
    assert found.reasons == {place.app: "hold-no-resize"}
    assert place.made() == 0
    place.run(target.close())


def test_each_decision_is_stored_once_behind_a_proxy_that_fails_most_writes(place: Place) -> None:
    place.add_pod("old")
    proxy = FaultProxy(place.cluster.lab, access_of(str(place.account)), seed=5)
    api = KubernetesApi(Access(place.run(proxy.start()), Token("unused"), None), 5.0, 1000.0)
    target = KubernetesTarget(api, 5.0, 60.0, 4, "hirl/hirl-sizes")
    for tick in range(_TICKS):
        now = present(place, target, tick)
        write = place.resizing(now, 300 + 10 * tick, tick)
        assert answer(place, target, write) in {"applied", "repeat"}
    place.run(target.close())
    place.run(proxy.close())
    stored = Counter(
        one.audit_id for one in resizes(place) if one.object_ref["resource"] == "configmaps"
    )
    assert stored == {f"{place.domain}/{tick}/3/heuristic/2": 1 for tick in range(_TICKS)}
    assert place.pod_size("old")[0] == f"{300 + 10 * (_TICKS - 1)}m"
    assert set(proxy.suffered) == set(FAULTS)


def test_a_size_that_new_pods_could_not_have_is_refused_and_not_stored(place: Place) -> None:
    """Stored all the same, it would keep every new pod of the workload from being made."""
    limits = {"limits": [{"type": "Container", "max": {"cpu": "600m"}}]}
    place.cluster.post(
        f"/api/v1/namespaces/{place.cluster.namespace}/limitranges",
        {"metadata": {"name": "small"}, "spec": limits},
    )
    place.add_pod("old")
    target = place.target()
    now = present(place, target)
    written = place.run(target.carry_out(place.resizing(now, 400)))
    assert written.answers == {place.app: "refused"}
    assert "maximum cpu usage per Container is 600m" in written.reasons[place.app]
    assert place.entry() is None
    assert size_of(place.add_pod("new")) == ("250m", "512Mi", "500m")
    place.run(target.close())

"""Workloads are handed back as they were found, on a real API server."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from services._kit.kubernetes.adoption import DOMAIN, MANAGED, REPLICAS_BEFORE
from services.actuator.kubernetes import KubernetesTarget
from services.admin import release
from services.cli.main import app_of
from services.lab.controlplane import Lab
from tests.integration.lab_helpers import Cluster, Kubectl, within
from tests.kubernetes_helpers import deployment, running_loop
from tests.target_suite import answer, present, raising

_SPACE = "released"


class Adopted:
    """Deployments of one namespace, and the operator's command."""

    domain = _SPACE

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.run, self.kubectl = cluster, cluster.run, Kubectl(cluster.lab.kubeconfig)
        self.app, self.tick = "", 0

    def create(self, name: str, replicas: int, *, managed: bool = False) -> None:
        self.app = f"{_SPACE}/{name}"
        self.cluster.create(deployment(name, replicas, domain=_SPACE, managed=managed))

    def adopt(self, name: str) -> None:
        self.kubectl("-n", _SPACE, "annotate", "deployment", name, f"{MANAGED}=true")

    def scale(self, name: str, by: int) -> None:
        """As the actuator does."""
        self.app = f"{_SPACE}/{name}"
        self.tick += 1
        target = self.target()
        write = raising(self, present(self, target, self.tick), self.tick, by)
        assert answer(self, target, write) == "applied"

    def target(self) -> KubernetesTarget:
        return self.cluster.target()

    def made(self) -> int:
        return self.cluster.changes(self.app.removeprefix(f"{_SPACE}/"))

    def stored(self, name: str) -> tuple[int, dict[str, str]]:
        found = self.cluster.stored(name)
        return found["spec"]["replicas"], found["metadata"].get("annotations", {})

    def release(self, *words: str) -> tuple[int, str]:
        options = ["kubernetes", "release", "--namespace", _SPACE, *words]
        kubeconfig = {"KUBECONFIG": str(self.cluster.lab.kubeconfig)}
        done = CliRunner().invoke(app_of(lambda _: True), options, env=kubeconfig)
        return done.exit_code, done.output


@pytest.fixture(scope="module")
def place(lab: Lab) -> Iterator[Adopted]:
    with running_loop() as run:
        made = Adopted(Cluster(lab, run, _SPACE))
        yield made
        made.cluster.close()


@pytest.fixture
def adopted(place: Adopted) -> Adopted:
    """No workloads, and the policy is in force."""
    place.kubectl("apply", "-k", "infra/k8s/adoption")
    place.kubectl("-n", _SPACE, "delete", "deployments", "--all")
    place.create("probe", 1)

    def noted() -> bool:
        # The policy is enforced a moment after it was stored.
        place.kubectl("-n", _SPACE, "annotate", "deployment", "probe", f"{MANAGED}-")
        place.adopt("probe")
        return REPLICAS_BEFORE in place.stored("probe")[1]

    assert within(30, noted)
    place.kubectl("-n", _SPACE, "delete", "deployment", "probe")
    return place


def test_what_we_scaled_gets_back_what_it_had(adopted: Adopted) -> None:
    adopted.create("web", 4)
    adopted.adopt("web")
    adopted.scale("web", 3)
    assert adopted.stored("web")[0] == 7
    said = adopted.release("--dry-run")[1]
    assert "released/web (Deployment): 7 replicas -> 4, as before its adoption" in said
    assert "would be handed back" in said
    assert adopted.stored("web")[0] == 7
    assert adopted.release() == (0, said.replace("would be handed back", "handed back"))
    replicas, annotations = adopted.stored("web")
    assert replicas == 4
    assert not {MANAGED, REPLICAS_BEFORE} & annotations.keys()
    # The next adoption begins with what is there then, and a released workload has no second owner.
    adopted.kubectl("-n", _SPACE, "scale", "deployment", "web", "--replicas=5")
    adopted.adopt("web")
    adopted.scale("web", 1)
    assert adopted.stored("web")[1][REPLICAS_BEFORE] == "5"


def test_new_pods_have_the_size_of_their_template_again(adopted: Adopted) -> None:
    """Whatever was stored of the size of others stays."""
    entries = {
        "released_web": "app 250 512 300 512 - - d",
        "shop_cart": "app 250 512 300 512 - - d",
    }
    sizes = {"metadata": {"name": "hirl-sizes", "namespace": _SPACE}, "data": entries}
    adopted.cluster.post(f"/api/v1/namespaces/{_SPACE}/configmaps", sizes)
    adopted.create("web", 4)
    adopted.adopt("web")

    def stored() -> set[str]:
        words = ["-n", _SPACE, "get", "configmap", "hirl-sizes", "-o", "json"]
        return set(json.loads(adopted.kubectl(*words))["data"])

    assert adopted.release("--dry-run")[0] == 0
    assert stored() == {"released_web", "shop_cart"}
    assert adopted.release()[0] == 0
    assert stored() == {"shop_cart"}


def test_the_note_is_of_the_adoption_and_survives_later_changes(adopted: Adopted) -> None:
    adopted.create("made-managed", 3, managed=True)
    assert adopted.stored("made-managed")[1][REPLICAS_BEFORE] == "3"
    adopted.scale("made-managed", 2)
    adopted.kubectl("-n", _SPACE, "label", "deployment", "made-managed", "team=shop")
    manifest = adopted.cluster.stored("made-managed")
    del manifest["metadata"]["annotations"][REPLICAS_BEFORE]
    file = adopted.cluster.lab.kubeconfig.parent / "replaced.json"
    file.write_text(json.dumps(manifest))
    adopted.kubectl("replace", "-f", str(file))
    assert adopted.stored("made-managed")[1][REPLICAS_BEFORE] == "3"


def test_a_number_that_somebody_else_set_stays(adopted: Adopted) -> None:
    adopted.create("web", 4)
    adopted.adopt("web")
    adopted.scale("web", 3)
    adopted.kubectl("-n", _SPACE, "scale", "deployment", "web", "--replicas=9")
    code, said = adopted.release()
    assert (code, adopted.stored("web")[0]) == (0, 9)
    assert "9 replicas stay, set by kubectl" in said


def test_replicas_stay_where_that_is_asked_for_or_nothing_was_noted(adopted: Adopted) -> None:
    adopted.create("web", 4)
    adopted.adopt("web")
    adopted.scale("web", 3)
    assert adopted.release("--keep-replicas")[0] == 0
    assert adopted.stored("web") == (7, {})
    adopted.kubectl("delete", "-k", "infra/k8s/adoption")

    def unnoted() -> bool:
        adopted.kubectl("-n", _SPACE, "annotate", "deployment", "web", f"{MANAGED}-")
        adopted.kubectl("-n", _SPACE, "annotate", "deployment", "web", f"{REPLICAS_BEFORE}-")
        adopted.adopt("web")
        return REPLICAS_BEFORE not in adopted.stored("web")[1]

    assert within(30, unnoted)
    adopted.scale("web", 1)
    assert "8 replicas stay, no hirl.dev/replicas-before" in adopted.release()[1]
    assert adopted.stored("web") == (8, {})


def test_a_change_in_between_is_seen(adopted: Adopted) -> None:
    adopted.create("web", 4)
    adopted.adopt("web")
    adopted.scale("web", 3)
    kubectl = release.Kubectl((f"--kubeconfig={adopted.cluster.lab.kubeconfig}",))
    found = release.adopted(kubectl, _SPACE)
    adopted.kubectl("-n", _SPACE, "scale", "deployment", "web", "--replicas=9")
    (done,) = release.hand_back(kubectl, found, keep_replicas=False, dry_run=False)
    assert (done.restored, adopted.stored("web")) == (None, (9, {}))


def test_others_workloads_are_not_touched(adopted: Adopted) -> None:
    adopted.create("theirs", 4)
    before: dict[str, Any] = adopted.cluster.stored("theirs")
    assert adopted.release() == (0, "0 of 0 workload(s) handed back\n")
    assert adopted.cluster.stored("theirs") == before
    assert before["metadata"]["labels"] == {DOMAIN: _SPACE}

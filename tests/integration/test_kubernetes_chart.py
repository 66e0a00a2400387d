"""The chart on a real API server: installed, upgraded, switched to another mode, removed."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services._kit.kubernetes.adoption import MANAGED
from services.admin import release as admin
from services.lab import build, controlplane
from services.lab.controlplane import Lab
from services.lab.manifests import CHART
from tests.integration.conftest import require
from tests.integration.lab_helpers import ROOT, Kubectl
from tests.kubernetes_helpers import deployment

_MONITORS = Path(__file__).parent / "servicemonitors.yaml"
_OURS = "app.kubernetes.io/part-of=hirl-scale"


class Release:
    """Helm and kubectl, as an administrator has them."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self.kubectl = lab, Kubectl(lab.kubeconfig)

    def helm(self, *words: str, check: bool = True) -> str:
        command = [
            str(build.helm()),
            f"--kubeconfig={self.lab.kubeconfig}",
            "--namespace=hirl",
            *words,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout + done.stderr

    def install(self) -> None:
        self.helm("install", "hirl", str(CHART), "--set=serviceMonitor.enabled=true")

    def upgrade(self, *words: str, check: bool = True) -> str:
        return self.helm("upgrade", "hirl", str(CHART), *words, check=check)

    def stored(self, kind: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            self.kubectl("-n", "hirl", "get", kind, name, "-o", "json")
        )
        return found

    def exists(self, kind: str, name: str) -> bool:
        return "NotFound" not in self.kubectl("-n", "hirl", "get", kind, name, check=False)

    def template(self, name: str) -> dict[str, Any]:
        return dict(self.stored("deployment", name)["spec"]["template"])

    def mode(self) -> str:
        return str(self.stored("configmap", "hirl-settings")["data"]["HIRL_ACTUATOR_MODE"])


@pytest.fixture(scope="module")
def server(workplace: Path) -> Iterator[Lab]:
    """Of its own: other tests apply the rendered folders, whose objects no chart may take over."""
    require("API server", build.folder_of)
    require("Helm", build.helm)
    home = workplace / "chart-lab"
    yield controlplane.start(home)
    controlplane.stop(home, wipe=True)


@pytest.fixture(scope="module")
def release(server: Lab) -> Release:
    """Installed as the guide says, with everything that is optional."""
    made = Release(server)
    made.kubectl("apply", "-k", "infra/k8s/namespace")
    made.kubectl("apply", "--server-side", "-f", str(_MONITORS))
    made.kubectl("wait", "--for=condition=Established", "crd/servicemonitors.monitoring.coreos.com")
    made.install()
    return made


def _finish_removal(release: Release, name: str) -> None:
    """What the controller of namespaces does, which this server does not have."""
    found = release.kubectl("get", "namespace", name, "-o", "json")
    body = {**json.loads(found), "spec": {"finalizers": []}}
    file = Path(release.lab.home) / "namespace.json"
    file.write_text(json.dumps(body))
    release.kubectl("replace", "--raw", f"/api/v1/namespaces/{name}/finalize", "-f", str(file))


def test_an_install_is_complete_and_in_preview(release: Release) -> None:
    assert release.mode() == "preview"
    assert json.loads(release.helm("list", "--output=json"))[0]["status"] == "deployed"
    for name in ("actuator", "soldier", "provisioner", "collector", "commander"):
        assert release.exists("deployment", name)
    for kind, name in (
        ("servicemonitor", "hirl-scale"),
        ("validatingadmissionpolicy", "hirl-actuator"),
        ("mutatingadmissionpolicy", "hirl-adoption"),
        ("crd", "scalingdomains.hirl.dev"),
        ("priorityclass", "hirl-scale"),
    ):
        assert release.exists(kind, name), (kind, name)


def test_the_restricted_standard_admits_every_pod(release: Release) -> None:
    names = release.kubectl("-n", "hirl", "get", "deployments", "-o", "name").split()
    assert len(names) == 8
    for name in names:
        pod = {**release.template(name.removeprefix("deployment.apps/")), "apiVersion": "v1"}
        pod |= {"kind": "Pod", "metadata": {"name": "trial", "namespace": "hirl"}}
        file = Path(release.lab.home) / "pod.json"
        file.write_text(json.dumps(pod))
        said = release.kubectl("create", "--dry-run=server", "-f", str(file))
        assert "pod/trial created" in said
        pod["spec"]["securityContext"]["runAsNonRoot"] = False
        file.write_text(json.dumps(pod))
        refused = release.kubectl("create", "--dry-run=server", "-f", str(file), check=False)
        assert "violates PodSecurity" in refused


def test_another_mode_is_a_rollout_and_keeps_the_other_values(release: Release) -> None:
    before = release.template("actuator")
    release.upgrade("--reuse-values", "--set=mode=auto")
    assert release.mode() == "auto"
    assert release.template("actuator") != before
    assert release.exists("servicemonitor", "hirl-scale")
    release.upgrade("--reuse-values", "--set=mode=preview")
    assert release.mode() == "preview"
    assert release.template("actuator") == before


def test_sizes_come_with_their_rights_and_go_with_them(release: Release) -> None:
    objects = (
        ("clusterrole", "hirl-actuator-vertical"),
        ("mutatingadmissionpolicybinding", "hirl-sizes"),
        ("validatingadmissionpolicybinding", "hirl-resizes"),
        ("configmap", "hirl-sizes"),
    )
    for wanted in (True, False):
        release.upgrade("--reuse-values", f"--set=vertical={str(wanted).lower()}")
        settings = release.stored("configmap", "hirl-settings")["data"]
        assert settings.get("HIRL_ACTUATOR_SIZES") == ("hirl/hirl-sizes" if wanted else None)
        assert settings["HIRL_SOLDIER_VERTICAL"] == str(wanted).lower()
        assert [release.exists(*one) for one in objects] == [wanted] * 4


def test_an_upgrade_leaves_the_domains_that_the_collector_has_written(release: Release) -> None:
    written = '--patch={"data":{"domains.yaml":"domains: []"}}'
    release.kubectl("-n", "hirl", "patch", "configmap", "hirl-domains", "--type=merge", written)
    release.upgrade("--reuse-values", "--set=mode=canary")
    release.upgrade("--reset-then-reuse-values", "--set=mode=preview")
    stored = release.stored("configmap", "hirl-domains")
    assert stored["data"] == {"domains.yaml": "domains: []"}


def test_an_upgrade_that_makes_no_sense_changes_nothing(release: Release) -> None:
    before = release.kubectl("-n", "hirl", "get", "deployment,configmap", "-o", "yaml")
    assert "/mode" in release.upgrade("--set=mode=automatic", check=False)
    assert release.kubectl("-n", "hirl", "get", "deployment,configmap", "-o", "yaml") == before


def test_an_upgrade_can_be_rolled_back(release: Release) -> None:
    release.upgrade("--reuse-values", "--set=mode=canary,image.tag=0.2.0")
    (container,) = release.template("soldier")["spec"]["containers"]
    assert container["image"] == "hirl-scale:0.2.0"
    release.helm("rollback", "hirl")
    (container,) = release.template("soldier")["spec"]["containers"]
    assert (container["image"], release.mode()) == ("hirl-scale:0.1.0", "preview")


def test_an_upgrade_brings_definitions_that_are_missing_fields(release: Release) -> None:
    """As those of an older release would be."""
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/saturation"
    patch = json.dumps([{"op": "remove", "path": path}])
    crd = "workloadprofiles.hirl.dev"
    release.kubectl("patch", "crd", crd, "--type=json", f"--patch={patch}")
    assert "saturation" not in json.dumps(release.stored("crd", crd))
    release.upgrade("--reuse-values")
    assert "saturation" in json.dumps(release.stored("crd", crd))


def test_removing_the_release_restores_what_was_there(release: Release) -> None:
    """In the order of the guide: adopted at 4, scaled to 6 as the actuator does, removed."""
    manifest = Path(release.lab.home) / "shop.json"
    manifest.write_text(json.dumps(deployment("checkout", 4, managed=False)))
    release.kubectl("create", "namespace", "shop")
    release.kubectl("create", "-f", str(manifest))
    checkout = ["-n", "shop", "deployment", "checkout"]
    release.upgrade("--reuse-values", "--set=mode=auto")
    release.kubectl("annotate", *checkout, f"{MANAGED}=true")
    # With the actuator's field manager; kubectl reads scales, which its account may not.
    patch = ["--subresource=scale", "--type=merge", '--patch={"spec":{"replicas":6}}']
    release.kubectl("patch", *checkout, *patch, "--field-manager=hirl:shop/1/3/heuristic/2")

    def replicas() -> int:
        found = json.loads(release.kubectl("get", *checkout, "-o", "json"))
        return int(found["spec"]["replicas"])

    assert replicas() == 6
    release.upgrade("--reuse-values", "--set=mode=off")
    kubectl = admin.Kubectl((f"--kubeconfig={release.lab.kubeconfig}",))
    found = admin.adopted(kubectl)
    admin.hand_back(kubectl, found, keep_replicas=False, dry_run=False)
    release.helm("uninstall", "hirl")
    assert replicas() == 4
    _finish_removal(release, "hirl-room")
    release.install()


def test_removing_the_release_leaves_what_people_declared_and_nothing_else(
    release: Release,
) -> None:
    spec = {"priority": "P0", "floorShare": 0.2, "pools": ["general"]}
    domain = {"apiVersion": "hirl.dev/v1alpha1", "kind": "ScalingDomain", "spec": spec}
    file = Path(release.lab.home) / "domain.json"
    file.write_text(json.dumps({**domain, "metadata": {"name": "payments"}}))
    release.kubectl("wait", "--for=condition=Established", "crd/scalingdomains.hirl.dev")
    release.kubectl("apply", "-f", str(file))
    release.helm("uninstall", "hirl")
    assert release.exists("scalingdomain", "payments")
    kinds = "deployment,configmap,service,networkpolicy,pdb,servicemonitor,clusterrole"
    kinds += ",clusterrolebinding,validatingadmissionpolicy,mutatingadmissionpolicy,priorityclass"
    assert not release.kubectl("-n", "hirl", "get", kinds, "-o", "name", "-l", _OURS).strip()
    _finish_removal(release, "hirl-room")
    # It comes back to the definitions that it left.
    release.install()
    assert release.mode() == "preview"

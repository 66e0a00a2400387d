"""The chart is the source of the rendered folders, and refuses values that make no sense."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from models.inputs.errors import InputError
from services.lab import build
from services.lab.manifests import CHART, render, rendered
from tests.integration.conftest import require
from tests.unit.infra.deploy_helpers import SERVICES, Container, image_environment, settings_of

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True, scope="module")
def helm() -> None:
    """It is built by `make lab-build`, never within a test."""
    require("Helm", build.helm)


def objects(*arguments: str) -> dict[tuple[str, str], dict[str, Any]]:
    """What is rendered, by kind and name."""
    found = [one for one in yaml.safe_load_all(render(*arguments)) if one is not None]
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


def settings(found: dict[tuple[str, str], dict[str, Any]]) -> dict[str, str]:
    return dict(found["ConfigMap", "hirl-settings"]["data"])


def test_the_folders_are_what_the_chart_renders() -> None:
    differing = [
        file.relative_to(ROOT) for file, text in rendered().items() if file.read_text() != text
    ]
    assert differing == [], "run make manifests"


def test_an_install_is_in_preview_and_auto_is_asked_for() -> None:
    assert settings(objects())["HIRL_ACTUATOR_MODE"] == "preview"
    assert settings(objects())["HIRL_PROVISIONER_MODE"] == "preview"
    asked = settings(objects("--set=mode=auto,room.mode=auto"))
    assert (asked["HIRL_ACTUATOR_MODE"], asked["HIRL_PROVISIONER_MODE"]) == ("auto", "auto")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set=mode=automatic"], "/mode"),
        (["--set=mode=null"], "missing property 'mode'"),
        (["--set=source=simulated"], "/source"),
        (["--set=replica=3"], "replica"),
        (["--set=replicas.soldier=0"], "/replicas/soldier"),
        (["--set=kafka.bootstrap=kafka"], "/kafka/bootstrap"),
        (["--set=settings.HIRL_LOG_LEVEL=1"], "/settings/HIRL_LOG_LEVEL"),
        (["--set=settings.LOG_LEVEL=debug"], "LOG_LEVEL"),
        (["--set-string=settings.HIRL_KAFKA_PASSWORD=secret"], "HIRL_KAFKA_PASSWORD"),
        (["--set=networkPolicies.apiServer.cidr=10.0.0.1"], "cidr"),
        (["--set=priorityClass.value=2000000000"], "/priorityClass/value"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(arguments: Sequence[str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        render(*arguments)


def test_every_service_reads_your_files_and_your_settings(tmp_path: Path) -> None:
    cluster = ROOT / "infra" / "examples" / "cluster.yaml"
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text("apps: []\n")
    found = objects(
        f"--set-file=files.cluster={cluster},files.inventory={inventory}",
        "--set=settings.HIRL_LOG_LEVEL=debug",
    )
    files = found["ConfigMap", "hirl-files"]["data"]
    assert files == {"cluster.yaml": cluster.read_text(), "inventory.yaml": inventory.read_text()}
    secret = {"HIRL_KAFKA_USER": "someone", "HIRL_KAFKA_PASSWORD": "secret"}
    environment = image_environment() | settings(found) | secret
    for name in set(SERVICES) - {"simcluster"}:
        kit, own = settings_of(Container(name, [], environment))
        assert kit.log_level == "debug"
        assert own.cluster == "/etc/hirl/files/cluster.yaml"


def test_another_setting_or_file_is_a_rollout(tmp_path: Path) -> None:
    def checksum(*arguments: str) -> str:
        template = objects(*arguments)["Deployment", "soldier"]["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/settings"])

    file = tmp_path / "queries.yaml"
    file.write_text("queries: {}\n")
    sums = {checksum(), checksum("--set=mode=auto"), checksum(f"--set-file=files.queries={file}")}
    assert len(sums) == 3


def test_the_account_and_the_subjects_are_those_of_the_releases_namespace() -> None:
    found = objects("--namespace=elsewhere")
    policy = found["ValidatingAdmissionPolicy", "hirl-actuator"]
    (condition,) = policy["spec"]["matchConditions"]
    assert "'system:serviceaccount:elsewhere:actuator'" in condition["expression"]
    bindings = [
        one for (kind, _), one in found.items() if kind.endswith("Binding") and "subjects" in one
    ]
    assert {subject["namespace"] for one in bindings for subject in one["subjects"]} == {
        "elsewhere"
    }


def test_without_an_api_server_to_read_nobody_has_rights_or_a_token() -> None:
    found = objects("--set=source=prometheus")
    assert not {kind for kind, _ in found} & {"ClusterRole", "Role", "ValidatingAdmissionPolicy"}
    for (kind, _), one in found.items():
        if kind == "Deployment":
            assert one["spec"]["template"]["spec"]["automountServiceAccountToken"] is False


def test_the_chart_has_the_version_of_the_project() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = (ROOT / "pyproject.toml").read_text()
    assert f'version = "{chart["version"]}"' in project
    assert chart["appVersion"] == chart["version"]

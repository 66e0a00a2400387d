"""Parse the compose file and the manifests, and start services with their settings."""

import asyncio
import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp
import pytest
import yaml

from services._kit.settings import KitSettings, load

ROOT: Final = Path(__file__).parents[3]
COMPOSE: Final = ROOT / "docker-compose.yml"
DOCKERFILE: Final = (ROOT / "infra/docker/Dockerfile").read_text()
K8S: Final = ROOT / "infra/k8s"
VERSION: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
IMAGE: Final = f"hirl-scale:{VERSION}"
USER: Final = 10001
PORT: Final = 8080
"""Of /metrics, /healthz and /readyz in every container but the simulated cluster's."""
SIMULATED_PORT: Final = 8700
SERVICES: Final = sorted(file.parent.name for file in ROOT.glob("services/*/__main__.py"))
BESIDE_SIMULATED: Final = [name for name in SERVICES if name != "provisioner"]
"""Services beside a simulated cluster, which obeys node requests itself."""


class Container(NamedTuple):
    """Command and environment of a container."""

    name: str
    command: list[str]
    environment: dict[str, str]


@cache
def compose() -> dict[str, Any]:
    """The compose file, with every variable at its default."""
    found: dict[str, Any] = yaml.safe_load(_filled_in(COMPOSE.read_text()))
    return found


def _filled_in(text: str) -> str:
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


def composed(name: str) -> Container:
    """A service of the compose file."""
    service = compose()["services"][name]
    return Container(name, service["command"], image_environment() | service["environment"])


@cache
def image_environment() -> dict[str, str]:
    """Settings that the image sets."""
    return dict(re.findall(r"\b(HIRL_\w+)=(\S+)", DOCKERFILE))


@cache
def manifests(folder: str) -> list[dict[str, Any]]:
    """Output of `kubectl kustomize` for a folder of infra/k8s; skips without kubectl."""
    program = shutil.which("kubectl")
    if program is None:
        # In CI a skip would look like a pass.
        if os.environ.get("CI") or os.environ.get("HIRL_REQUIRE_REAL") == "1":
            pytest.fail("kubectl is required here")
        pytest.skip("no kubectl")
    done = subprocess.run(
        [program, "kustomize", str(K8S / folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    # Deprecated fields are warnings on stderr.
    assert not done.stderr, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def of_kind(folder: str, *kinds: str) -> list[dict[str, Any]]:
    return [found for found in manifests(folder) if found["kind"] in kinds]


def workloads(folder: str) -> list[dict[str, Any]]:
    return of_kind(folder, "Deployment", "Job")


def pod_of(workload: Mapping[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = workload["spec"]["template"]["spec"]
    return spec


def deployed(folder: str, workload: Mapping[str, Any]) -> Container:
    """The container of a Deployment or Job, with placeholders for Secrets."""
    (container,) = pod_of(workload)["containers"]
    maps = {
        found["metadata"]["name"]: found.get("data", {}) for found in of_kind(folder, "ConfigMap")
    }
    environment = image_environment()
    for source in container.get("envFrom", []):
        if "configMapRef" in source:
            environment = environment | maps[source["configMapRef"]["name"]]
    for variable in container.get("env", []):
        given = variable["value"] if "value" in variable else _secret(variable)
        environment = environment | {variable["name"]: given}
    return Container(workload["metadata"]["name"], container["command"], environment)


def _secret(variable: Mapping[str, Any]) -> str:
    """The key equals the variable's name, so a SERVICE.env file can create the Secret."""
    key: str = variable["valueFrom"]["secretKeyRef"]["key"]
    assert key == variable["name"]
    return f"the {key}"


def settings_of(container: Container) -> tuple[KitSettings, Any]:
    """Settings as the process reads them; raises BadSettings for an unknown variable."""
    assert all(isinstance(value, str) for value in container.environment.values())
    settings = importlib.import_module(f"services.{container.name}.settings")
    return load(settings.SERVICE, settings.Settings, container.environment)


def start(container: Container) -> KitSettings:
    """Do all that the process does before it connects; raises what would end it."""
    module = f"services.{container.name}"
    assert container.command == ["python", "-m", module]
    assert importlib.util.find_spec(f"{module}.__main__") is not None
    kit, own = settings_of(container)
    _build(importlib.import_module(f"{module}.app"), kit, own)
    return kit


def _build(app: Any, kit: KitSettings, own: Any) -> None:
    """Three kinds of composition: a handler, a source, a world."""
    if hasattr(app, "build"):
        app.build(kit, own)
    elif hasattr(app, "source_of"):
        asyncio.run(_source(app, own))
    else:
        # Without the world itself, which takes seconds to build.
        app.load_scenario(own.scenario, app._load_cluster(own))


async def _source(app: Any, own: Any) -> None:
    async with aiohttp.ClientSession() as session:
        app.source_of(own, session, lambda _: None)

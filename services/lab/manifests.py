"""Renders the folders of `infra/k8s` from the chart, so that both installations are the same.

`python -m services.lab.manifests` writes them; a test compares what is written with the chart.
"""

import re
import subprocess
from pathlib import Path
from typing import Final

import yaml

from models.inputs.errors import InputError
from services.lab import build

K8S: Final = Path(__file__).parents[2] / "infra" / "k8s"
CHART: Final = K8S / "chart"
ADOPTION: Final = "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"
"""An API that older clusters do not serve."""
_OVERLAY: Final = "overlays/kubernetes"
_VERTICAL: Final = "vertical"
_FOLDERS: Final = {
    "room.yaml": "room",
    "adoption.yaml": "adoption",
    "service-monitor.yaml": "monitors",
    "vertical.yaml": _VERTICAL,
    # Applied as they are.
    "custom-resources.yaml": "",
}
"""Where templates go that are folders of their own; the others go into overlay and base."""
_HEADER: Final = "# Rendered from infra/k8s/chart by `make manifests`.\n"
_CHECKSUM: Final = re.compile(r" +annotations:\n +# A changed[^\n]*\n +checksum/settings: \w+\n")
"""Generated ConfigMaps have a hash in their name instead."""


def render(*arguments: str) -> str:
    """What `helm template` makes of the chart."""
    command = [str(build.helm()), "template", "hirl", str(CHART), "--kube-version=1.36.0"]
    command += ["--namespace=hirl", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        raise InputError(f"helm: {done.stderr.strip()}")
    return done.stdout


def rendered() -> dict[Path, str]:
    """Every rendered file with its text."""
    whole = render("--set=serviceMonitor.enabled=true", f"--api-versions={ADOPTION}")
    bare = render("--set=source=prometheus,customResources.install=false")
    found = {**_folders(whole, _OVERLAY), **_folders(bare, "base")}
    # A component on top of the overlay: of that rendering only its own folder counts.
    vertical = f"{_VERTICAL}/hirl.yaml"
    found[vertical] = _folders(render("--set=vertical=true"), _OVERLAY)[vertical]
    return {K8S / name: text for name, text in found.items()}


def _folders(text: str, default: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for document in text.split("---\n# Source: ")[1:]:
        source, _, body = document.partition("\n")
        template = source.rpartition("/")[2]
        folder = _FOLDERS.get(template, default)
        if template == "settings.yaml":
            found[f"{folder}/settings.env"] = _HEADER + _settings(body)
        elif folder:
            name = f"{folder}/hirl.yaml"
            separator = "---\n" if name in found else _HEADER
            found[name] = found.get(name, "") + separator + _CHECKSUM.sub("", body)
    return found


def _settings(config_map: str) -> str:
    data = yaml.safe_load(config_map)["data"]
    return "".join(f"{name}={value}\n" for name, value in data.items())


def write() -> None:
    """Write what differs."""
    for file, text in rendered().items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


if __name__ == "__main__":
    write()

"""Builds Kubernetes' programs, Karpenter and Helm from their Go modules, once, into a cache.

The key of the cache is a hash of what determines the programs: the module's files, the flags and
the version of Go. Nothing is built where the key is there: even a warm link takes a minute.
"""

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from models.inputs.errors import InputError
from services.devcluster.processes import Notify, locked, silent

_MODULES: Final = Path(__file__).parents[2] / "infra" / "lab"
"""Part of a checkout, not of an installed package."""
HELM: Final = "helm"
KARPENTER: Final = "karpenter"
_KARPENTER: Final = "sigs.k8s.io/karpenter"
_PACKAGES: Final = {
    HELM: "helm.sh/helm/v3/cmd/helm",
    KARPENTER: f"{_KARPENTER}/kwok",
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
}
API_SERVER: Final = ("kube-apiserver", "etcd")
"""Enough for everything that talks to the API server and needs no controller."""
CONTROL_PLANE: Final = tuple(name for name in _PACKAGES if name not in {HELM, KARPENTER})
_POLL_S: Final = 1.0
_LINE_S: Final = 30.0
"""Interval of progress lines."""


def missing(programs: Sequence[str] = API_SERVER) -> list[str]:
    """Programs that are not built yet."""
    return [name for name in programs if not (_cache(name) / name).is_file()]


def folder_of(programs: Sequence[str] = API_SERVER) -> Path:
    """The folder that has all of these programs of one module; they are never built here."""
    absent = missing(programs)
    if absent:
        raise InputError(f"{', '.join(absent)} is not built: run hirl lab build")
    return _cache(programs[0])


def helm() -> Path:
    """The program, which is never built here."""
    return folder_of([HELM]) / HELM


def karpenter() -> Path:
    """The program, with the definitions of its resources beside it in `crds`; never built here."""
    return folder_of([KARPENTER]) / KARPENTER


def build(programs: Sequence[str] = API_SERVER, notify: Notify = silent) -> Path:
    """Build what is missing, one program after the other; return the folder of the first."""
    for name in missing(programs):
        with locked(_cache(name)):
            # Another process may have built it meanwhile.
            if missing([name]):
                notify(f"building {name}: minutes the first time, and never again ...")
                began = time.monotonic()
                _build(name, notify)
                notify(f"{name}: built in {time.monotonic() - began:.0f} s")
    return _cache(programs[0])


def _module(program: str) -> Path:
    return _MODULES / (program if program in {HELM, KARPENTER} else "controlplane")


def _cache(program: str) -> Path:
    """Folder of a program as this checkout names it."""
    module = _module(program)
    parts = [(module / name).read_bytes() for name in ("go.mod", "go.sum")]
    parts += [" ".join(_flags(program)).encode(), _go_version().encode()]
    key = hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "hirl" / "lab" / key


def kubernetes_version() -> str:
    """The version of Kubernetes that the module requires."""
    lines = (_module("kube-apiserver") / "go.mod").read_text().splitlines()
    line = next(line for line in lines if "k8s.io/kubernetes v" in line)
    return line.partition("k8s.io/kubernetes ")[2].split()[0]


def _flags(program: str) -> list[str]:
    if program in {HELM, KARPENTER}:
        return ["-trimpath", "-ldflags", "-s -w"]
    # Without the version the API server calls itself v0.0.0, and refuses to emulate itself.
    major, minor, _ = kubernetes_version().removeprefix("v").split(".")
    version = "k8s.io/component-base/version.git"
    values = {"Version": kubernetes_version(), "Major": major, "Minor": minor}
    names = " ".join(f"-X {version}{name}={value}" for name, value in values.items())
    return ["-trimpath", "-ldflags", f"-s -w {names}"]


def _go() -> str:
    if not _MODULES.is_dir():
        raise InputError(f"{_MODULES}: is missing; run hirl from a checkout of the repository")
    found = shutil.which("go")
    if found is None:
        raise InputError("the lab builds Kubernetes with Go and none is installed: install Go 1.26")
    return found


def _go_version() -> str:
    done = subprocess.run([_go(), "env", "GOVERSION"], capture_output=True, text=True, check=False)  # noqa: S603
    return done.stdout.strip()


def _build(name: str, notify: Notify) -> None:
    folder = _cache(name)
    draft, log = folder / f"{name}.draft", folder / f"{name}.log"
    command = [_go(), "build", *_flags(name), "-o", str(draft), _PACKAGES[name]]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false -mod=readonly"}
    with log.open("wb") as output:
        child = subprocess.Popen(  # noqa: S603  (our own command line)
            command, cwd=_module(name), env=environment, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            _wait(child, name, notify)
        finally:
            # Ctrl-C must not leave a build behind that nobody waits for.
            child.kill()
            child.wait()
    if child.returncode != 0:
        lines = log.read_text(errors="replace").splitlines()[-3:]
        raise InputError(f"{name} could not be built, see {log}: {lines}")
    if name == KARPENTER:
        _copy_definitions(folder)
    # In one rename: an interrupted build leaves nothing that looks complete.
    draft.rename(folder / name)


def _copy_definitions(folder: Path) -> None:
    """Karpenter's definitions are part of its module, which a cache of programs does not have."""
    command = [_go(), "list", "-m", "-f", "{{.Dir}}", _KARPENTER]
    module = _module(KARPENTER)
    done = subprocess.run(command, cwd=module, capture_output=True, text=True, check=True)  # noqa: S603
    (folder / "crds").mkdir(exist_ok=True)
    for file in Path(done.stdout.strip()).glob("**/apis/crds/*.yaml"):
        shutil.copyfile(file, folder / "crds" / file.name)


def _wait(child: "subprocess.Popen[bytes]", name: str, notify: Notify) -> None:
    began = told = time.monotonic()
    while child.poll() is None:
        time.sleep(_POLL_S)
        if time.monotonic() - told >= _LINE_S:
            told = time.monotonic()
            notify(f"{name}: building for {told - began:.0f} s")

"""Starts and stops a control plane on free loopback ports; kills and restarts single processes.

etcd and the API server, and where asked for the scheduler and the controller manager too.

Everything of a lab is in its folder: keys, tokens, data, logs, and the audit log, which is the API
server's own journal of every write.
"""

import json
import secrets
import shutil
import ssl
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final

import msgspec

from models.inputs.errors import InputError
from services.devcluster import certificates, processes
from services.devcluster.kafka.security import write_private
from services.devcluster.processes import HOST, Notify, silent
from services.lab import build

HOME: Final = Path(".hirl/lab")
ETCD: Final = "etcd"
API_SERVER: Final = "kube-apiserver"
SCHEDULER: Final = "kube-scheduler"
CONTROLLERS: Final = "kube-controller-manager"
_FILE: Final = "lab.json"
_START_S: Final = 90.0
_STOP_S: Final = 10.0
_POLL_S: Final = 0.1
_AUDIT: Final = """
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
  # Both stages: a write that was made just before the server died has no answer in the log.
  - level: RequestResponse
    verbs: [create, update, patch, delete, deletecollection]
    resources:
      - {group: apps, resources: ["*"]}
      - {group: "", resources: [pods/resize]}
      - {group: autoscaling.x-k8s.io, resources: ["*"]}
  - level: Metadata
    omitStages: [RequestReceived]
    verbs: [create, update, patch, delete, deletecollection]
  - level: None
"""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One process of a lab."""

    name: str
    command: tuple[str, ...]
    pid: int | None = None


class Lab(msgspec.Struct, frozen=True, kw_only=True):
    """A control plane on this machine."""

    home: str
    server: str
    version: str
    parts: tuple[Part, ...]

    @property
    def kubeconfig(self) -> Path:
        """Of its administrator."""
        return Path(self.home) / "admin.kubeconfig"

    @property
    def authority(self) -> Path:
        """The certificate that clients trust."""
        return Path(self.home) / "tls" / "ca.pem"

    @property
    def audit_log(self) -> Path:
        """One JSON record per line and stage of a request."""
        return Path(self.home) / "audit.log"


def read(home: Path = HOME) -> Lab | None:
    """The lab in a folder, whether it runs or not."""
    try:
        return msgspec.json.decode((home / _FILE).read_bytes(), type=Lab)
    except FileNotFoundError:
        return None


def is_up(lab: Lab) -> bool:
    """Whether all of its processes run."""
    return all(_process(lab, part) is not None for part in lab.parts)


def start(
    home: Path = HOME, notify: Notify = silent, *, whole: bool = False, speed: float = 1.0
) -> Lab:
    """Start a control plane and wait until it is ready; a running one stays as it is.

    `whole`: with scheduler and controller manager. `speed` divides the times of the HPA controller.
    """
    with processes.locked(home):
        lab = read(home)
        if lab is not None and is_up(lab):
            return lab
        programs = build.build(build.CONTROL_PLANE if whole else build.API_SERVER, notify)
        if lab is not None:
            _stop(lab)
        lab = _plan(home.resolve(), programs)
        if whole:
            lab = _with_controllers(lab, programs, speed)
        notify(f"starting Kubernetes {lab.version} at {lab.server}")
        return _complete(lab)


def stop(home: Path = HOME, *, wipe: bool = False) -> int:
    """Stop its processes; return how many ran. `wipe` removes its folder's contents too."""
    with processes.locked(home):
        lab = read(home)
        stopped = 0 if lab is None else _stop(lab)
        if wipe and lab is not None:
            for entry in home.iterdir():
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    return stopped


def kill(lab: Lab, name: str) -> None:
    """End one process as a crash would; `restart` brings it back."""
    processes.kill(next(_process(lab, part) for part in lab.parts if part.name == name))


def restart(home: Path) -> Lab:
    """Start what is down, on its ports and with its data, and wait until the server is ready."""
    with processes.locked(home):
        lab = read(home)
        if lab is None:
            raise InputError(f"{home}: has no lab")
        return _complete(lab)


def kubeconfig(lab: Lab, token: str, path: Path) -> Path:
    """Write a kubeconfig with a token."""
    named = {"cluster": "lab", "user": "lab"}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "clusters": [
            {
                "name": "lab",
                "cluster": {"server": lab.server, "certificate-authority": str(lab.authority)},
            }
        ],
        "users": [{"name": "lab", "user": {"token": token}}],
        "contexts": [{"name": "lab", "context": named}],
    }
    write_private(path, json.dumps(document, indent=2))
    return path


def _plan(home: Path, programs: Path) -> Lab:
    client, peer, port = processes.free_ports(3)
    if not (home / "tls" / "server.crt").is_file():
        certificates.create(home / "tls", "server", "kube-apiserver")
    (home / "audit-policy.yaml").write_text(_AUDIT)
    token = secrets.token_urlsafe(24)
    write_private(home / "tokens.csv", f'{token},lab-admin,lab-admin,"system:masters"\n')
    lab = Lab(
        home=str(home),
        server=f"https://{HOST}:{port}",
        version=build.kubernetes_version(),
        parts=(
            Part(name=ETCD, command=_etcd(home, programs, client, peer)),
            Part(name=API_SERVER, command=_api_server(home, programs, client, port)),
        ),
    )
    kubeconfig(lab, token, lab.kubeconfig)
    return lab


def _with_controllers(lab: Lab, programs: Path, speed: float) -> Lab:
    """Plan the programs that act on what is stored."""
    scheduler, controllers = processes.free_ports(2)
    home = Path(lab.home)
    parts = (
        Part(name=SCHEDULER, command=(str(programs / SCHEDULER), *_client(lab, scheduler))),
        Part(
            name=CONTROLLERS,
            command=(
                str(programs / CONTROLLERS),
                *_client(lab, controllers),
                # Each controller under its own name, so that the audit log tells them apart.
                "--use-service-account-credentials",
                f"--service-account-private-key-file={home / 'tls' / 'server.key'}",
                # No kubelet renews leases: every node would count as lost.
                "--controllers=*,-node-lifecycle-controller",
                *_hpa(speed),
            ),
        ),
    )
    return msgspec.structs.replace(lab, parts=(*lab.parts, *parts))


def _client(lab: Lab, port: int) -> tuple[str, ...]:
    return (
        f"--kubeconfig={lab.kubeconfig}",
        f"--bind-address={HOST}",
        f"--secure-port={port}",
        f"--cert-dir={Path(lab.home) / 'tls' / str(port)}",
        # One of each; the wait for a lease would only delay the start.
        "--leader-elect=false",
    )


def _hpa(speed: float) -> tuple[str, ...]:
    """The HPA controller's times; at speed 1 its defaults."""
    times = {
        "sync-period": 15,
        "downscale-stabilization": 300,
        "cpu-initialization-period": 300,
        "initial-readiness-delay": 30,
    }
    prefix = "--horizontal-pod-autoscaler-"
    return tuple(f"{prefix}{name}={seconds / speed:.3f}s" for name, seconds in times.items())


def _etcd(home: Path, programs: Path, client: int, peer: int) -> tuple[str, ...]:
    at, peers = f"http://{HOST}:{client}", f"http://{HOST}:{peer}"
    return (
        str(programs / ETCD),
        f"--data-dir={home / 'etcd'}",
        f"--listen-client-urls={at}",
        f"--advertise-client-urls={at}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        # A killed process loses nothing by it, only a machine that loses its power.
        "--unsafe-no-fsync",
        "--log-level=warn",
    )


def _api_server(home: Path, programs: Path, etcd: int, port: int) -> tuple[str, ...]:
    tls = home / "tls"
    return (
        str(programs / API_SERVER),
        f"--etcd-servers=http://{HOST}:{etcd}",
        f"--bind-address={HOST}",
        f"--secure-port={port}",
        # Where the machine has no default route the server would not know its own address.
        f"--advertise-address={HOST}",
        "--endpoint-reconciler-type=none",
        "--service-cluster-ip-range=10.96.0.0/16",
        f"--tls-cert-file={tls / 'server.crt'}",
        f"--tls-private-key-file={tls / 'server.key'}",
        f"--token-auth-file={home / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://lab",
        f"--service-account-key-file={tls / 'server.crt'}",
        f"--service-account-signing-key-file={tls / 'server.key'}",
        f"--audit-policy-file={home / 'audit-policy.yaml'}",
        f"--audit-log-path={home / 'audit.log'}",
        # No controller has to create accounts, and no kubelet removes the taint of a new node.
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
    )


def _complete(lab: Lab) -> Lab:
    """Start the missing parts and wait for the server; on failure stop everything."""
    parts = tuple(
        part if _process(lab, part) else msgspec.structs.replace(part, pid=_spawn(lab, part))
        for part in lab.parts
    )
    lab = msgspec.structs.replace(lab, parts=parts)
    (Path(lab.home) / _FILE).write_bytes(msgspec.json.format(msgspec.json.encode(lab)))
    try:
        _wait(lab)
    except (InputError, KeyboardInterrupt):
        _stop(lab)
        raise
    return lab


def _spawn(lab: Lab, part: Part) -> int:
    log = Path(lab.home) / f"{part.name}.log"
    return processes.spawn(part.command, log, mode="ab").pid


def _wait(lab: Lab) -> None:
    deadline = time.monotonic() + _START_S
    while not _is_ready(lab):
        for part in lab.parts:
            if _process(lab, part) is None:
                log = Path(lab.home) / f"{part.name}.log"
                lines = log.read_text(errors="replace").splitlines()[-2:]
                raise InputError(f"{part.name} ended during its start, see {log}: {lines}")
        if time.monotonic() > deadline:
            raise InputError(f"{lab.server} was not ready within {_START_S:.0f} s, see {lab.home}")
        time.sleep(_POLL_S)


def _is_ready(lab: Lab) -> bool:
    context = ssl.create_default_context(cafile=str(lab.authority))
    try:
        with urllib.request.urlopen(f"{lab.server}/readyz", timeout=2, context=context) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _process(lab: Lab, part: Part) -> processes.Process | None:
    # The folder is in every command line, and no other process has it.
    return processes.find(part.pid, lab.home)


def _stop(lab: Lab) -> int:
    # The API server first: without etcd it would wait for it.
    running = [_process(lab, part) for part in reversed(lab.parts)]
    return processes.end_all(running, _STOP_S)

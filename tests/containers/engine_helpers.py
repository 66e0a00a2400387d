"""A Docker engine of its own: its data in a folder, its containers in a network namespace.

Two daemons use the same data, one after the other. The one that builds is in the machine's network,
because packages are fetched; the one that runs has loopback and its own bridges only.
"""

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any, Final

_START_S: Final = 60.0
_CLIENT: Final = "/usr/bin/docker"
"""Debian's: it has BuildKit inside, a newer one asks for a plugin."""


class Engine:
    """One daemon at a time."""

    def __init__(self, folder: Path, compose: Path) -> None:
        self.folder, self._compose = folder.resolve(), compose
        self.namespace = f"hirl-{os.getpid()}"
        self._daemon: subprocess.Popen[bytes] | None = None
        (self.folder / "run").mkdir(parents=True, exist_ok=True)
        # An empty object: the machine's own configuration is not ours to use.
        (self.folder / "daemon.json").write_text("{}")

    def build_with_network(self) -> None:
        """Start the daemon that builds."""
        flags = ("--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false")
        self._start((), (*flags, "--ip-masq=false"))

    def run_without_network(self) -> None:
        """Start the daemon that runs, in a namespace that routes nothing out."""
        run("ip", "netns", "add", self.namespace)
        run("ip", "-n", self.namespace, "link", "set", "lo", "up")
        pools = "base=10.251.0.0/16,size=24"
        bridges = ("--bip", "10.250.0.1/24", "--default-address-pool", pools)
        self._start(self.inside(), bridges)

    def inside(self) -> tuple[str, ...]:
        """What to put before a command that speaks to published ports."""
        # `ip netns exec` would give the daemon a /sys without cgroups.
        return ("nsenter", f"--net=/run/netns/{self.namespace}")

    def stop(self) -> None:
        """End the daemon, and with it its containers."""
        if self._daemon is not None:
            self._daemon.terminate()
            self._daemon.wait(60)
            self._daemon = None
        if Path(f"/run/netns/{self.namespace}").exists():
            run("ip", "netns", "del", self.namespace)

    def docker(self, *words: str, check: bool = True) -> str:
        """Output of a docker command."""
        return run(_CLIENT, *words, environment=self.environment(), check=check)

    def compose(self, *words: str, **variables: str) -> str:
        """Output of a Compose command on our file, unchanged."""
        command = (str(self._compose), *words)
        return run(*command, environment={**self.environment(), **variables})

    def inspect(self, container: str) -> dict[str, Any]:
        """All about a container."""
        found: list[dict[str, Any]] = json.loads(self.docker("inspect", container))
        return found[0]

    def get(self, url: str) -> bytes:
        """An answer from a published port; empty if there is none."""
        command = (*self.inside(), "curl", "--silent", "--fail", "--max-time", "30", url)
        return subprocess.run(command, capture_output=True, check=False).stdout

    def environment(self) -> dict[str, str]:
        """Where clients find the daemon."""
        return {
            **os.environ,
            "DOCKER_HOST": f"unix://{self.folder}/run/docker.sock",
            "DOCKER_BUILDKIT": "1",
        }

    def _start(self, prefix: tuple[str, ...], flags: tuple[str, ...]) -> None:
        command = (
            *prefix, "dockerd", "--data-root", f"{self.folder}/data", "--exec-root",
            f"{self.folder}/exec", "--pidfile", f"{self.folder}/run/dockerd.pid", "-H",
            f"unix://{self.folder}/run/docker.sock", "--config-file", f"{self.folder}/daemon.json",
            *flags,
        )  # fmt: skip
        with (self.folder / "dockerd.log").open("ab") as log:
            self._daemon = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + _START_S
        while not self.docker("version", "--format", "{{.Server.Version}}", check=False).strip():
            if self._daemon.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"dockerd did not start, see {self.folder}/dockerd.log")
            time.sleep(0.2)


def run(*command: str, environment: dict[str, str] | None = None, check: bool = True) -> str:
    """Output of a command; a failure shows what it said."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout

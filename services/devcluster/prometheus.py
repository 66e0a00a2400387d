"""A real Prometheus on a loopback port, for tests of scraping, queries and alerts."""

import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final

import msgspec

from models.inputs.errors import InputError
from services.devcluster import processes
from services.devcluster.processes import HOST, Notify, silent

HOME: Final = Path(".hirl/prometheus")
_PACKAGE: Final = "prometheus"
_UNPACKED: Final = HOME / "package"
_START_S: Final = 30.0
_STOP_S: Final = 10.0
_POLL_S: Final = 0.1
_FETCH_S: Final = 300.0


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """A running Prometheus."""

    url: str
    version: str
    pid: int
    config: Path
    """Its path in the command line identifies the process."""
    log: Path


def program(name: str = "prometheus", notify: Notify = silent) -> Path:
    """`prometheus` or `promtool`: from PATH, or from Debian's package, unpacked without root."""
    installed = shutil.which(name)
    if installed is not None:
        return Path(installed)
    unpacked = _UNPACKED / "usr" / "bin" / name
    # Test sessions in parallel must not fetch into the same folder.
    with processes.locked(HOME):
        if not unpacked.is_file():
            _fetch(notify)
    return unpacked.resolve()


def start(config: Path, home: Path, *, notify: Notify = silent) -> Server:
    """Start with a configuration file, data under `home`, and wait until it is ready."""
    binary = program(notify=notify)
    (port,) = processes.free_ports(1)
    command = [
        str(binary),
        f"--config.file={config.resolve()}",
        f"--storage.tsdb.path={(home / 'data').resolve()}",
        f"--web.listen-address={HOST}:{port}",
        "--web.enable-lifecycle",
        "--log.level=warn",
    ]
    log = home / "prometheus.log"
    server = Server(
        url=f"http://{HOST}:{port}",
        version=version(binary),
        pid=processes.spawn(command, log).pid,
        config=config.resolve(),
        log=log,
    )
    _wait(server)
    return server


def is_running(server: Server) -> bool:
    """Whether the process of that server still runs."""
    return processes.find(server.pid, str(server.config)) is not None


def stop(server: Server) -> None:
    """Stop that server."""
    processes.end_all([processes.find(server.pid, str(server.config))], _STOP_S)


def version(binary: Path) -> str:
    """The version that the program prints."""
    done = subprocess.run(  # noqa: S603  (our own command line)
        [str(binary), "--version"], capture_output=True, text=True, check=False
    )
    # "prometheus, version 2.42.0+ds (branch: ...": the third word.
    words = (done.stdout or done.stderr).split()
    return words[2] if len(words) > 2 else "unknown"


def _wait(server: Server) -> None:
    deadline = time.monotonic() + _START_S
    while not _ready(server.url):
        # A bad configuration ends it within milliseconds: report that instead of waiting.
        if not is_running(server):
            lines = server.log.read_text(errors="replace").splitlines()[-1:]
            raise InputError(f"Prometheus ended during its start, see {server.log}: {lines}")
        if time.monotonic() > deadline:
            stop(server)
            raise InputError(f"Prometheus was not ready within {_START_S:.0f} s")
        time.sleep(_POLL_S)


def _ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=2) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _fetch(notify: Notify) -> None:
    missing = [tool for tool in ("apt-get", "dpkg") if shutil.which(tool) is None]
    if missing:
        raise InputError(
            f"prometheus is not on PATH, and without {' and '.join(missing)} Debian's package "
            "can't be fetched: install prometheus 2.42 or newer"
        )
    notify("fetching Debian's prometheus (19 MB) ...")
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=HOME) as draft:
        folder = Path(draft)
        _run(["apt-get", "download", _PACKAGE], folder)
        (package,) = folder.glob("*.deb")
        # Unpacked only: installing would need root and start a service.
        _run(["dpkg", "-x", package.name, "unpacked"], folder)
        # In one rename: an interrupted fetch leaves nothing that looks complete.
        shutil.rmtree(_UNPACKED, ignore_errors=True)
        (folder / "unpacked").rename(_UNPACKED)


def _run(command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(  # noqa: S603  (our own command line)
            command, cwd=folder, capture_output=True, text=True, timeout=_FETCH_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"{command[0]} did not end within {_FETCH_S:.0f} s") from None
    if done.returncode != 0:
        raise InputError(
            f"{' '.join(command[:2])} failed: {done.stderr}; install prometheus 2.42 or newer"
        )

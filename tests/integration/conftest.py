"""Real servers, started once for all integration tests: Kafka, Prometheus, Kubernetes."""

import gc
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from models.inputs.errors import InputError
from services.admin import client, reconcile
from services.devcluster import processes
from services.devcluster import prometheus as prometheus_server
from services.devcluster.connect import Running
from services.devcluster.kafka import cluster, provision
from services.lab import build, controlplane

_HERE = Path(__file__).parent
_STARTED = pytest.StashKey[list[str]]()
_LEAK = r"unclosed <(socket|ssl)\."


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_STARTED] = []


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the versions that the tests ran against."""
    for line in config.stash[_STARTED]:
        terminalreporter.write_line(line)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """kafka-python 3.0.12 does not close the socket of a connection that failed."""
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(f"ignore:{_LEAK}:ResourceWarning"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Collect leaked sockets after the last test here, or tests elsewhere fail on their warnings.

    Not in a fixture: the captured log of a test holds its connections until the test is over.
    """
    result = yield
    is_last = nextitem is None or _HERE not in nextitem.path.parents
    if _HERE in item.path.parents and is_last:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", _LEAK, ResourceWarning)
            # Coroutines hold each other and the sockets, so one collection is not enough.
            for _ in range(5):
                gc.collect()
    return result


@pytest.fixture(scope="session")
def workplace() -> Iterator[Path]:
    """A folder for this session, removed at its end."""
    _remove_leftovers()
    Path(".hirl").mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"test-{os.getpid()}-", dir=".hirl"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def _remove_leftovers() -> None:
    """Stop and remove clusters of sessions that were killed: the folder's name has their pid."""
    for folder in Path(".hirl").glob("test-*-*"):
        owner = folder.name.split("-")[1]
        if owner.isdigit() and not processes.command_line(int(owner)):
            for home in filter(Path.is_dir, folder.iterdir()):
                cluster.stop(home, wipe=True, timeout_s=0)
                controlplane.stop(home)
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def start_kafka(workplace: Path, pytestconfig: pytest.Config) -> Iterator[Callable[..., Running]]:
    """Starts a cluster in a folder of the given name; all stop at the end of the session."""
    require("Kafka", provision.runtime)
    homes: list[Path] = []

    def start(name: str, *, brokers: int = 1, secure: bool = False) -> Running:
        home = workplace / name
        homes.append(home)
        started = Running(home=home, cluster=cluster.start(home, brokers=brokers, secure=secure))
        admin = client.admin(started.options())
        try:
            assert reconcile.apply_to(admin, acls=secure).differences == []
        finally:
            admin.close()
        description = started.cluster
        pytestconfig.stash[_STARTED].append(
            f"Apache Kafka {description.version}, cluster id {description.cluster_id}, "
            f"{brokers} broker(s), {description.security}"
        )
        return started

    yield start
    for home in homes:
        # The data is removed anyway, so a broker has nothing to save.
        cluster.stop(home, wipe=True, timeout_s=0)


@pytest.fixture(scope="session")
def kafka(start_kafka: Callable[..., Running]) -> Running:
    """One broker without security."""
    return start_kafka("plain")


@pytest.fixture(scope="session")
def secure_kafka(start_kafka: Callable[..., Running]) -> Running:
    """One broker with TLS, a password per service and ACLs."""
    return start_kafka("secure", secure=True)


@pytest.fixture
def start_prometheus(
    workplace: Path, pytestconfig: pytest.Config
) -> Iterator[Callable[[str], prometheus_server.Server]]:
    """Starts a Prometheus with a configuration (the YAML text); stopped after the test."""
    require("Prometheus", prometheus_server.program)
    started: list[prometheus_server.Server] = []

    def start(config: str) -> prometheus_server.Server:
        home = Path(tempfile.mkdtemp(prefix="prometheus-", dir=workplace))
        (home / "prometheus.yml").write_text(config)
        server = prometheus_server.start(home / "prometheus.yml", home)
        started.append(server)
        line = f"Prometheus {server.version}"
        if line not in pytestconfig.stash[_STARTED]:
            pytestconfig.stash[_STARTED].append(line)
        return server

    yield start
    for server in started:
        prometheus_server.stop(server)


@pytest.fixture(scope="session")
def lab(workplace: Path, pytestconfig: pytest.Config) -> Iterator[controlplane.Lab]:
    """A real API server with etcd. It is built by `make lab-build`, never within a test."""
    require("API server", build.folder_of)
    home = workplace / "lab"
    started = controlplane.start(home)
    pytestconfig.stash[_STARTED].append(f"Kubernetes {started.version}, API server and etcd")
    yield started
    controlplane.stop(home)


def require(what: str, provide: Callable[[], object]) -> None:
    """Skip the test if something is missing; fail in CI, where a skip would look like a pass."""
    try:
        provide()
    except InputError as error:
        if os.environ.get("CI") or os.environ.get("HIRL_REQUIRE_REAL") == "1":
            pytest.fail(f"a real {what} is required here: {error}")
        pytest.skip(f"no real {what}: {error}")

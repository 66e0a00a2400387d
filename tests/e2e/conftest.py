"""A folder for a whole system, removed afterwards; skips where Java or Kafka are missing."""

import gc
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from models.inputs.errors import InputError
from services.devcluster.kafka import provision


def pytest_unconfigure() -> None:
    """Collect leaked sockets before pytest reports unclosed resources."""
    with _sockets_may_leak():
        gc.collect()


@contextmanager
def _sockets_may_leak() -> Iterator[None]:
    """kafka-python 3.0.12 does not close the socket of a connection that failed."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"unclosed <(socket|ssl)\.", ResourceWarning)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Iterator[None]:
    """The same for fixtures: some run a whole system before they yield."""
    with _sockets_may_leak():
        yield
        gc.collect()


@pytest.fixture(autouse=True)
def _no_warnings_of_sockets() -> Iterator[None]:
    with _sockets_may_leak():
        yield


@pytest.fixture(autouse=True, scope="package")
def _leaked_sockets_end_here() -> Iterator[None]:
    """Collect them here, or tests in other folders fail on their warnings."""
    yield
    with _sockets_may_leak():
        gc.collect()


@pytest.fixture(scope="module")
def workplace(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder for this module, removed at its end unless a test failed: its logs say why."""
    try:
        provision.runtime()
    except InputError as error:
        if os.environ.get("CI") or os.environ.get("HIRL_REQUIRE_REAL") == "1":
            pytest.fail(f"a real Kafka is required here: {error}")
        pytest.skip(f"no real Kafka: {error}")
    Path(".hirl").mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="e2e-", dir=".hirl"))
    failed = request.session.testsfailed
    yield folder
    if request.session.testsfailed == failed:
        shutil.rmtree(folder, ignore_errors=True)

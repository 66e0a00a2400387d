"""Only processes that we started are ended, however numbers are used again."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from services.devcluster import identity as processes


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield child
    child.kill()
    child.wait()


def test_a_process_is_found_again(sleeper: "subprocess.Popen[bytes]") -> None:
    assert processes.is_running(processes.of_pid(sleeper.pid))


def test_another_process_with_the_same_number_is_left_alone(
    sleeper: "subprocess.Popen[bytes]",
) -> None:
    known = processes.of_pid(sleeper.pid)
    assert known is not None
    stranger = replace(known, started="somebody else")
    assert processes.end_all([stranger, None], 1.0) == 0
    assert sleeper.poll() is None


def test_a_process_is_ended_and_then_no_longer_there(sleeper: "subprocess.Popen[bytes]") -> None:
    known = processes.of_pid(sleeper.pid)
    assert processes.end_all([known], 10.0) == 1
    assert not processes.is_running(known)
    assert processes.of_pid(sleeper.pid) is None

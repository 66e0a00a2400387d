"""Faults of processes are over when they are over, whatever happens in between."""

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from services.measure.chaos.processes import disk_full, paused

WRITER = """
import sys, time
out = open(sys.argv[1], "w")
for line in sys.stdin:
    try:
        out.write(line)
        out.flush()
        print("written", flush=True)
    except OSError as error:
        print("failed", flush=True)
"""


@pytest.fixture
def writer(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-c", WRITER, str(tmp_path / "file")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as child:
        yield child
        child.kill()


def written(child: "subprocess.Popen[str]") -> str:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write("something\n")
    child.stdin.flush()
    return child.stdout.readline().strip()


def test_a_full_disk_fails_writes_until_it_is_over(writer: "subprocess.Popen[str]") -> None:
    assert written(writer) == "written"
    limit = resource.prlimit(writer.pid, resource.RLIMIT_FSIZE)

    def interrupted() -> None:
        with disk_full([writer.pid]):
            assert written(writer) == "failed"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert written(writer) == "written"
    assert resource.prlimit(writer.pid, resource.RLIMIT_FSIZE) == limit


def test_a_process_that_dies_of_a_full_disk_is_left_alone(writer: "subprocess.Popen[str]") -> None:
    with disk_full([writer.pid]):
        writer.kill()
        writer.wait()


def test_a_paused_process_goes_on_whatever_happens(writer: "subprocess.Popen[str]") -> None:
    def interrupted() -> None:
        with paused(writer.pid):
            # A signal takes a moment to arrive.
            while psutil.Process(writer.pid).status() != psutil.STATUS_STOPPED:
                pass
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert written(writer) == "written"

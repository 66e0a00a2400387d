"""The image contains locked packages only, and only what services need."""

import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from services._kit.clock import SystemClock
from services._kit.probes import serving
from services._kit.telemetry import Telemetry
from tests.unit.infra.deploy_helpers import DOCKERFILE, PORT, ROOT, USER, VERSION, image_environment

PROBE = ROOT / "infra/docker/probe.py"
STAGES = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)[1:]


def instructions(name: str, text: str = DOCKERFILE) -> list[str]:
    joined = re.sub(r"\\\n\s*", "", text)
    return re.findall(rf"^{name} (.+)$", joined, re.MULTILINE)


def test_both_stages_use_the_python_version_of_the_locks() -> None:
    assert [stage.split()[0] for stage in STAGES] == ["${PYTHON_IMAGE}"] * 2
    # An argument, so that a build can pin the digest.
    assert "PYTHON_IMAGE=python:3.11-slim" in instructions("ARG")


def test_every_installed_package_is_in_a_lock_with_its_hash() -> None:
    commands = [
        command.strip() for run in instructions("RUN", STAGES[0]) for command in run.split("&&")
    ]
    fetching = [command for command in commands if re.search(r"pip (install|sync)|build", command)]
    # Guards against an expression that misses a command.
    assert len(fetching) == 4
    for command in fetching:
        assert "--require-hashes" in command or "--no-deps" in command
    assert any("pip sync" in command and "serving.txt" in command for command in fetching)
    named = set(re.findall(r"infra/locks/\w+\.txt", DOCKERFILE))
    assert named == {f"infra/locks/{name}.txt" for name in ("bootstrap", "serving", "dev")}
    assert all((ROOT / name).is_file() for name in named)


def test_the_build_backend_is_pinned_by_the_lock_that_constrains_it() -> None:
    lock = (ROOT / "infra/locks/dev.txt").read_text()
    # hatchling and its dependencies; a build that needs more fails at the missing hash.
    for package in ("hatchling", "packaging", "pathspec", "pluggy", "trove-classifiers"):
        assert re.search(rf"^{package}==", lock, re.MULTILINE), package


def test_it_runs_as_a_numeric_user_other_than_root() -> None:
    assert instructions("USER") == [f"{USER}:{USER}"]
    assert f"-o {USER} -g {USER} /var/cache/hirl" in STAGES[1]


def test_kernels_are_cached_in_a_folder_that_the_user_may_write_to() -> None:
    assert "XDG_CACHE_HOME=/var/cache/hirl" in STAGES[1]


def test_services_listen_where_probes_and_prometheus_ask() -> None:
    assert image_environment() == {
        "HIRL_KERNELS": "/opt/hirl/kernels",
        "HIRL_METRICS_HOST": "0.0.0.0",  # noqa: S104
        "HIRL_METRICS_PORT": str(PORT),
    }
    assert instructions("EXPOSE") == [str(PORT)]


def test_commands_that_serve_no_probes_are_not_called_unhealthy() -> None:
    assert instructions("HEALTHCHECK") == []


def test_kernels_are_compiled_into_the_folder_that_services_read() -> None:
    (command,) = [run for run in instructions("RUN", STAGES[0]) if "hirl kernels" in run]
    assert command.endswith("mv /cache/hirl/kernels ${HIRL_KERNELS}")
    folders = re.findall(r"HIRL_KERNELS=(\S+)", DOCKERFILE)
    assert folders == ["/opt/hirl/kernels"] * 2
    # The second stage copies that folder whole.
    assert "COPY --from=build /opt/hirl /opt/hirl" in STAGES[1]


def test_the_label_has_the_version_of_the_project() -> None:
    assert f"VERSION={VERSION}" in instructions("ARG")


def ignored(path: str) -> bool:
    """Like Docker for the simple patterns of our .dockerignore: the last match wins."""
    result = False
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        pattern = line.removeprefix("!").removeprefix("**/")
        parts = [path, *(str(parent) for parent in Path(path).parents), Path(path).name]
        if any(fnmatch(part, pattern) for part in parts):
            result = not line.startswith("!")
    return result


@pytest.mark.parametrize(
    "path",
    [
        ".git/config", ".hirl/kafka/credentials/admin.env", ".venv/bin/python", "tests/x.py",
        "docker-compose.yml", "infra/kafka/pom.xml", "services/cli/__pycache__/x.pyc", "admin.env",
    ],
)  # fmt: skip
def test_files_that_the_image_does_not_need_are_not_sent_to_the_builder(path: str) -> None:
    assert ignored(path)


def test_every_copied_file_exists_and_is_sent_to_the_builder() -> None:
    copied = [
        name
        for line in instructions("COPY")
        if "--from" not in line
        for name in re.sub(r"--\S+ ", "", line).split()[:-1]
    ]
    assert len(copied) == 10
    for name in copied:
        assert (ROOT / name).exists(), name
        assert not ignored(f"{name}/x.py" if (ROOT / name).is_dir() else name), name


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry("example", SystemClock())


@pytest.fixture
def port(telemetry: Telemetry) -> Iterator[int]:
    with serving(telemetry, "127.0.0.1", 0) as found:
        yield found


def probe(path: str, port: int) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-IS", str(PROBE), path],
        env={"HIRL_METRICS_PORT": str(port)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_probe_succeeds_when_the_kit_answers_200(telemetry: Telemetry, port: int) -> None:
    assert probe("/healthz", port).returncode == 0
    not_ready = probe("/readyz", port)
    assert not_ready.returncode == 1
    assert "503" in not_ready.stderr
    telemetry.health.reference_read = telemetry.health.assigned = True
    assert probe("/readyz", port).returncode == 0


def test_the_probe_imports_nothing_that_has_to_be_compiled_each_time() -> None:
    # The image has no bytecode of the standard library: an import costs more than the probe.
    code = f"import sys; sys.argv = ['probe', '/', '1']; exec(open({str(PROBE)!r}).read())"
    code = f"try:\n  {code}\nexcept SystemExit: print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-IS", "-c", code], capture_output=True, text=True, check=True
    )
    assert "_socket" in done.stdout.split()
    assert not {"socket", "enum", "urllib", "re"} & set(done.stdout.split())


def test_the_probe_is_executable_and_fails_if_nothing_listens() -> None:
    assert PROBE.stat().st_mode & stat.S_IXUSR
    assert probe("/healthz", 1).returncode == 1

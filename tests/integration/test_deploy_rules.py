"""A real promtool accepts the rules, and every alert fires when it should."""

import os
import subprocess
from pathlib import Path

import pytest

from models.inputs.errors import InputError
from services.devcluster import prometheus as prometheus_server

FOLDER = Path(__file__).parents[2] / "infra/prometheus"


@pytest.fixture(scope="module")
def promtool() -> Path:
    """Skip without promtool; fail in CI, where a skip would look like a pass."""
    try:
        return prometheus_server.program("promtool")
    except InputError as error:
        if os.environ.get("CI") or os.environ.get("HIRL_REQUIRE_REAL") == "1":
            pytest.fail(f"a real promtool is required here: {error}")
        pytest.skip(f"no real promtool: {error}")


@pytest.mark.parametrize(
    "arguments",
    [("check", "config", "prometheus.yml"), ("test", "rules", "rules.test.yml")],
    ids=" ".join,
)
def test_promtool_accepts_the_configuration_and_the_rule_tests_pass(
    promtool: Path, arguments: tuple[str, ...]
) -> None:
    done = subprocess.run(
        [str(promtool), *arguments], cwd=FOLDER, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout
    assert "FAILED" not in done.stdout + done.stderr

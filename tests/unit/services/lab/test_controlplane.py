"""A lab listens on loopback only, and its audit log has writes as received and as answered."""

from pathlib import Path

import pytest
import yaml

from models.inputs.errors import InputError
from services.lab import controlplane


@pytest.fixture
def lab(tmp_path: Path) -> controlplane.Lab:
    return controlplane._plan(tmp_path, tmp_path / "bin")


def test_everything_listens_on_loopback(lab: controlplane.Lab) -> None:
    words = [word for part in lab.parts for word in part.command]
    addresses = [word for word in words if "address=" in word or "-urls=" in word]
    assert len(addresses) >= 6
    assert all("127.0.0.1" in word for word in addresses)
    assert lab.server.startswith("https://127.0.0.1:")


def test_the_administrators_kubeconfig_is_private_and_verifies_the_server(
    lab: controlplane.Lab,
) -> None:
    assert lab.kubeconfig.stat().st_mode & 0o077 == 0
    cluster = yaml.safe_load(lab.kubeconfig.read_text())["clusters"][0]["cluster"]
    assert cluster == {"server": lab.server, "certificate-authority": str(lab.authority)}


def test_writes_to_workloads_are_in_the_audit_log_at_both_stages() -> None:
    rules = yaml.safe_load(controlplane._AUDIT)["rules"]
    assert rules[0]["level"] == "RequestResponse"
    assert "omitStages" not in rules[0]


def test_stopping_where_nothing_runs_stops_nothing(tmp_path: Path) -> None:
    assert controlplane.stop(tmp_path) == 0


def test_restarting_without_a_lab_is_an_error_that_names_the_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no lab"):
        controlplane.restart(tmp_path)

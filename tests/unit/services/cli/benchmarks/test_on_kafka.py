"""The folder of a measurement is removed after a success, and kept for its logs after an error."""

from pathlib import Path

import pytest
from rich.console import Console

from services.cli.benchmarks.on_kafka import measurement_folder
from services.devcluster.kafka import provision


@pytest.fixture(autouse=True)
def checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(provision, "runtime", lambda _: None)


def test_the_folder_is_removed_after_a_success() -> None:
    with measurement_folder("size", Console()) as folder:
        (folder / "soldier.log").write_text("ready")
    assert not folder.exists()


def test_the_folder_stays_after_an_error() -> None:
    with pytest.raises(OSError, match="disk"), measurement_folder("size", Console()) as folder:
        raise OSError("disk")
    assert folder.is_dir()


def test_two_measurements_get_folders_of_their_own() -> None:
    with measurement_folder("a", Console()) as one, measurement_folder("a", Console()) as other:
        assert one != other

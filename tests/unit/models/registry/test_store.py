"""A store gives the bytes that were put there, and nothing from anywhere else."""

import os
from pathlib import Path

import fsspec
import pytest

from models.inputs.errors import InputError
from models.registry import store as stores
from models.registry.manifest import MANIFEST, MODEL, read_manifest
from models.registry.store import Entry, fetch, open_store, read_folder
from tests.planted_models import TRUST, files_of, linear_policy

FILES = files_of(linear_policy())
VERSION = read_manifest(FILES[MANIFEST], "x").version
ENTRY = Entry("commander-policy", VERSION)


@pytest.fixture(params=["folder", "local", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        memory = fsspec.filesystem("memory")
        memory.store.clear()
        return "memory://models"
    return str(tmp_path / "models") if request.param == "folder" else f"file://{tmp_path}/models"


def test_what_was_added_is_listed_and_fetched(url: str) -> None:
    store = open_store(url)
    assert list(store.entries()) == []
    store.write(ENTRY, FILES)
    store.write(ENTRY, FILES)
    assert list(store.entries()) == [ENTRY]
    assert dict(fetch(store, ENTRY, TRUST).files) == FILES


def test_what_is_not_there_is_refused_with_what_to_do(url: str) -> None:
    with pytest.raises(InputError, match="no such artefact; hirl models list"):
        fetch(open_store(url), ENTRY, TRUST)


@pytest.mark.parametrize("version", ["..", "../../etc", "a" * 63, "A" * 64, "", "0" * 64 + "/.."])
def test_no_version_leads_out_of_the_store(url: str, version: str) -> None:
    with pytest.raises(InputError, match="a SHA-256 as the version"):
        fetch(open_store(url), Entry("commander-policy", version), TRUST)


def test_another_artefact_in_its_place_is_refused(url: str) -> None:
    store, other = open_store(url), Entry("commander-policy", "0" * 64)
    store.write(other, FILES)
    with pytest.raises(InputError, match="another artefact than its place says"):
        fetch(store, other, TRUST)
    store.write(Entry("soldier-policy", VERSION), FILES)
    with pytest.raises(InputError, match="another artefact than its place says"):
        fetch(store, Entry("soldier-policy", VERSION), TRUST)


def test_a_file_beyond_the_limit_is_not_read_whole(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(url)
    store.write(ENTRY, FILES)
    monkeypatch.setattr(stores, "limit_of", lambda _: 10)
    with pytest.raises(InputError, match="is larger than"):
        fetch(store, ENTRY, TRUST)


def test_links_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(FILES[MODEL])
    folder = tmp_path / "artefact"
    folder.mkdir()
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    assert read_folder(folder) == FILES
    (folder / MODEL).unlink()
    (folder / MODEL).symlink_to(secret)
    with pytest.raises(InputError, match="is a symbolic link"):
        read_folder(folder)
    store = open_store(str(tmp_path / "models"))
    (tmp_path / "models" / ENTRY.kind).mkdir(parents=True)
    (tmp_path / "models" / ENTRY.kind / VERSION).symlink_to(folder)
    with pytest.raises(InputError, match="is a symbolic link"):
        fetch(store, ENTRY, TRUST)


def test_a_pipe_blocks_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / MODEL)
    with pytest.raises(InputError, match="is no file"):
        read_folder(tmp_path)


def test_a_folder_in_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / MODEL).mkdir()
    with pytest.raises(InputError, match=r"model\.onnx: cannot be read"):
        read_folder(tmp_path)


def test_an_artefact_that_was_half_written_is_no_artefact(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    (tmp_path / ENTRY.kind / ".adding-x").mkdir(parents=True)
    assert list(store.entries()) == []


def test_an_unknown_url_is_refused_in_one_line() -> None:
    with pytest.raises(InputError, match="nosuch"):
        open_store("nosuch://x")

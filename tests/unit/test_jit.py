"""The kernel cache notices every change of source, and does not grow for ever."""

import os
from pathlib import Path

import numpy as np

from models import jit

DAY = 24 * 3600


def test_kernels_are_compiled_anew_when_a_module_imported_by_name_changes() -> None:
    sources = jit._sources(Path(jit.__file__).parent / "features" / "summary.py")
    assert "kinds.py" in {source.name for source in sources}
    assert np.unique([str(source) for source in sources]).size == len(sources)


def test_only_folders_that_nobody_used_for_long_are_removed(tmp_path: Path) -> None:
    for name, days in (("old", 20), ("recent", 3)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "kernel.nbc").touch()
        os.utime(tmp_path / name, (0, -days * DAY))
    jit.prune(tmp_path, now=0)
    assert [folder.name for folder in tmp_path.iterdir()] == ["recent"]


def test_a_folder_in_use_is_noted_and_a_new_one_cleans_up(tmp_path: Path) -> None:
    used, forgotten = tmp_path / "used", tmp_path / "forgotten"
    for folder in (used, forgotten):
        folder.mkdir()
        os.utime(folder, (0, 0))
    jit._keep_house(used)
    assert forgotten.exists()
    jit._keep_house(tmp_path / "new")
    assert not forgotten.exists()
    assert used.exists()


def test_a_cache_that_is_not_there_yet_is_no_error(tmp_path: Path) -> None:
    jit._keep_house(tmp_path / "kernels" / "new")
    assert not any(tmp_path.iterdir()), "looking after a cache makes none"

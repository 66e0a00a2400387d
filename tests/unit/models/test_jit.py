"""The kernel cache notices every change of source, and does not grow for ever."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from models import jit

DAY = 24 * 3600


def test_kernels_are_compiled_anew_when_a_module_imported_by_name_changes() -> None:
    sources = jit.sources(Path(jit.__file__).parent / "features" / "summary.py")
    assert "sums.py" in {source.name for source in sources}
    assert np.unique([str(source) for source in sources]).size == len(sources)


def test_every_form_of_import_is_followed(tmp_path: Path) -> None:
    file = tmp_path / "kernels.py"
    file.write_text(
        "import models.cluster.plan\nfrom models.cluster import (\n    arrays,\n    calendar,\n)\n"
        "from models.features.table import APP\n"
    )
    names = {source.name for source in jit.sources(file)}
    assert {"plan.py", "arrays.py", "calendar.py", "table.py"} <= names


def test_comments_docstrings_and_formatting_do_not_change_what_a_file_means(tmp_path: Path) -> None:
    plain, documented, changed = (tmp_path / f"{name}.py" for name in ("a", "b", "c"))
    plain.write_text("def f(x):\n    return x + 1\n")
    documented.write_text('"""Why."""\n\ndef f(x):\n    """What."""\n    return (x + 1)  # note\n')
    changed.write_text("def f(x):\n    return x + 2\n")
    assert jit.meaning(plain) == jit.meaning(documented)
    assert jit.meaning(plain) != jit.meaning(changed)


def test_other_users_of_numba_keep_their_own_cache() -> None:
    assert "KernelLocator" not in jit._numba.config.CACHE_LOCATOR_CLASSES


def test_only_folders_unused_for_long_are_removed(tmp_path: Path) -> None:
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
    jit._mark_used(used)
    assert forgotten.exists()
    jit._mark_used(tmp_path / "new")
    assert not forgotten.exists()
    assert used.exists()


def test_a_cache_that_is_not_there_yet_is_no_error(tmp_path: Path) -> None:
    jit._mark_used(tmp_path / "kernels" / "new")
    assert not any(tmp_path.iterdir()), "looking after a cache makes none"


def test_without_a_writable_cache_kernels_are_compiled_at_every_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "file")}
    code = (
        "import logging; logging.basicConfig(); from models import jit; "
        "print(jit.is_compiled(jit.copy_row))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
    assert done.stderr.count("no cache can be written") == 1

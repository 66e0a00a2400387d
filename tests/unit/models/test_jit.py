"""The kernel cache notices every change of source, and does not grow for ever."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from models import jit, portable

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


def compile_one(**environment: str) -> tuple[str, str]:
    """Call a kernel in a new process: loads, whether it is in the cache, and what is logged."""
    code = (
        "import logging, numpy as np; logging.basicConfig(); from models import jit; "
        "a = np.zeros(2); jit.copy_row(a, a); print(sum(jit.copy_row.stats.cache_hits.values()),"
        " jit.is_compiled(jit.copy_row))"
    )
    given = {name: text for name, text in os.environ.items() if name != "HIRL_KERNELS"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**given, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip(), done.stderr


def test_without_a_writable_cache_kernels_are_compiled_at_every_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found, logged = compile_one(XDG_CACHE_HOME=str(tmp_path / "file"))
    assert found == "0 False"
    assert logged.count("no cache can be written") == 1


def test_kernels_of_an_image_are_used_from_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    image, nowhere = tmp_path / "image", tmp_path / "file"
    nowhere.touch()
    build = {"HIRL_KERNELS": str(image), "XDG_CACHE_HOME": str(tmp_path)}
    assert compile_one(**build)[0] == "0 True"
    (tmp_path / "hirl" / "kernels").rename(image)
    assert compile_one(HIRL_KERNELS=str(image), XDG_CACHE_HOME=str(nowhere)) == ("1 True", "")


def test_kernels_that_an_image_lacks_are_compiled_and_kept_elsewhere(tmp_path: Path) -> None:
    image, own = tmp_path / "image", tmp_path / "own"
    given = {"HIRL_KERNELS": str(image), "XDG_CACHE_HOME": str(own)}
    assert compile_one(**given)[0] == "0 True"
    assert compile_one(**given)[0] == "1 True"
    assert not image.exists()


def test_kernels_of_an_image_are_left_alone_where_the_cpu_lacks_a_feature() -> None:
    assert portable.fits(f"{portable.FEATURES},-avx512f,+sse2")
    assert not portable.fits(portable.FEATURES.replace("+avx2", "-avx2"))
    assert not portable.fits("+neon")

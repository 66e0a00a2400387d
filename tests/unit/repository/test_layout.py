"""Every package has a docstring, and test modules do not depend on each other."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = sorted(
    file.parent.relative_to(ROOT).as_posix()
    for name in ("models", "schemas", "services")
    for file in (ROOT / name).rglob("__init__.py")
)
TESTS = sorted(file.relative_to(ROOT).as_posix() for file in (ROOT / "tests").rglob("test_*.py"))
MIRRORED = sorted(
    folder.relative_to(ROOT / "tests" / "unit").as_posix()
    for name in ("models", "services")
    for folder in (ROOT / "tests" / "unit" / name).rglob("*")
    if folder.is_dir() and any(folder.glob("test_*.py"))
)


@pytest.mark.parametrize("folder", MIRRORED)
def test_unit_test_folders_mirror_the_packages(folder: str) -> None:
    assert (ROOT / folder / "__init__.py").exists()


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_has_a_docstring(package: str) -> None:
    tree = ast.parse((ROOT / package / "__init__.py").read_text())
    assert ast.get_docstring(tree), "expected a paragraph: contents, importers, limits"


@pytest.mark.parametrize("test", TESTS)
def test_no_test_module_imports_another(test: str) -> None:
    tree = ast.parse((ROOT / test).read_text())
    imported = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    ours = [name for name in imported if name.startswith("tests.")]
    assert not [name for name in ours if name.rpartition(".")[2].startswith("test_")]

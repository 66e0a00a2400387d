"""The cache of programs is keyed by what determines them, and nothing is built by accident."""

from pathlib import Path

import pytest

from models.inputs.errors import InputError
from services.lab import build


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(build, "_go_version", lambda: "go1.26.8")


def test_another_compiler_has_another_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    before = build._cache("etcd")
    monkeypatch.setattr(build, "_go_version", lambda: "go1.27")
    assert build._cache("etcd") != before


def test_each_module_has_its_own_cache() -> None:
    # Another Helm must not build the API server again.
    assert build._cache("etcd") == build._cache("kube-apiserver")
    assert len({build._cache(name) for name in ("etcd", build.HELM, build.KARPENTER)}) == 3


def test_helm_is_never_built_by_who_needs_it() -> None:
    with pytest.raises(InputError, match="helm is not built: run hirl lab build"):
        build.helm()


def test_programs_that_are_not_built_are_named_with_what_to_do() -> None:
    with pytest.raises(InputError, match="kube-apiserver, etcd is not built: run hirl lab build"):
        build.folder_of()


def test_what_is_there_is_not_built_again(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = build._cache("etcd")
    folder.mkdir(parents=True)
    for name in build.API_SERVER:
        (folder / name).touch()
    monkeypatch.setattr(build, "_build", lambda *_: pytest.fail("built"))
    assert build.build() == folder
    assert build.missing(build.CONTROL_PLANE) == ["kube-scheduler", "kube-controller-manager"]


def test_the_version_of_kubernetes_is_that_of_the_module() -> None:
    assert build.kubernetes_version() == "v1.36.3"
    assert "gitVersion=v1.36.3" in build._flags("etcd")[-1]

"""Tokens are read again, and a kubeconfig that we cannot trust is refused with what to do."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from services._kit.errors import BadSettings
from services._kit.kubernetes.credentials import Token, access_of


def kubeconfig(folder: Path, user: dict[str, Any], **cluster: Any) -> str:
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://10.0.0.1:6443/", **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(document))
    return str(path)


def test_a_rotated_token_is_used_after_a_minute_or_a_refusal(tmp_path: Path) -> None:
    now = [0.0]
    file = tmp_path / "token"
    file.write_text("old\n")
    token = Token(file=file, now=lambda: now[0])
    assert token.current() == "old"
    file.write_text("new\n")
    assert token.current() == "old"
    now[0] = 60.0
    assert token.current() == "new"
    file.write_text("newest\n")
    token.refused()
    assert token.current() == "newest"


def test_a_token_is_not_shown(tmp_path: Path) -> None:
    access = access_of(kubeconfig(tmp_path, {"token": "s3cret"}))
    assert "s3cret" not in repr(access)
    assert access.server == "https://10.0.0.1:6443"
    assert access.tls is not None


@pytest.mark.parametrize(
    ("user", "cluster", "words"),
    [
        ({"exec": {"command": "x"}}, {}, "runs a plugin"),
        ({}, {"insecure-skip-tls-verify": True}, "add its CA"),
        ({}, {"server": "http://10.0.0.1"}, "expected https://"),
    ],
)
def test_what_cannot_be_trusted_is_refused(
    tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any], words: str
) -> None:
    with pytest.raises(BadSettings, match=words):
        access_of(kubeconfig(tmp_path, user, **cluster))


@pytest.mark.parametrize("text", ["", "[]", "a: [", "current-context: x"])
def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(BadSettings, match="config is no kubeconfig"):
        access_of(str(path))


def test_outside_of_a_pod_a_kubeconfig_is_required() -> None:
    with pytest.raises(BadSettings, match="expected the path of a kubeconfig"):
        access_of("", {})

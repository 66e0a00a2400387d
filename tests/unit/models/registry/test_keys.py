"""Keys: nobody else can read the private one, and only trusted ones vouch."""

from pathlib import Path

import pytest

from models.inputs.errors import InputError
from models.registry.keys import (
    NOBODY,
    UNCHECKED,
    Trust,
    check_signature,
    generate,
    private_key,
    sign,
    trusted_keys,
)

VERSION = "0" * 64


def test_a_generated_key_signs_what_its_public_part_accepts(tmp_path: Path) -> None:
    name = generate(tmp_path / "release")
    assert (tmp_path / "release").stat().st_mode & 0o077 == 0
    trust = Trust(trusted_keys(tmp_path))
    assert list(trust.keys) == [name]
    signature = sign(VERSION, private_key(tmp_path / "release"))
    assert check_signature(VERSION, signature, trust, "x") == name
    with pytest.raises(InputError, match="was changed"):
        check_signature("1" * 64, signature, trust, "x")


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    generate(tmp_path / "release")
    before = (tmp_path / "release").read_bytes()
    with pytest.raises(InputError, match="exists already"):
        generate(tmp_path / "release")
    assert (tmp_path / "release").read_bytes() == before


def test_a_private_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    generate(tmp_path / "release")
    (tmp_path / "release").chmod(0o644)
    with pytest.raises(InputError, match="chmod 600"):
        private_key(tmp_path / "release")


def test_a_public_key_is_not_taken_for_a_private_one_that_others_can_read(tmp_path: Path) -> None:
    generate(tmp_path / "release")
    with pytest.raises(InputError, match="is a public key; give the private one"):
        private_key(tmp_path / "release.pub")


def test_a_signature_that_no_key_checks_is_called_unchecked(tmp_path: Path) -> None:
    generate(tmp_path / "release")
    signature = sign(VERSION, private_key(tmp_path / "release"))
    without_keys = Trust({}, unsigned=True)
    assert check_signature(VERSION, signature, without_keys, "x") == UNCHECKED
    assert check_signature(VERSION, None, without_keys, "x") == NOBODY


def test_files_that_are_no_keys_are_refused_in_one_line(tmp_path: Path) -> None:
    generate(tmp_path / "release")
    (tmp_path / "text").write_text("no key")
    with pytest.raises(InputError, match="no Ed25519 private key"):
        private_key(_copied(tmp_path / "text", tmp_path / "x"))
    with pytest.raises(InputError, match="no Ed25519 public key"):
        trusted_keys(tmp_path / "release")
    with pytest.raises(InputError, match="holds no public key"):
        trusted_keys(_folder(tmp_path / "empty"))
    with pytest.raises(InputError, match="cannot be read"):
        trusted_keys(tmp_path / "missing")


def _copied(source: Path, target: Path) -> Path:
    target.write_bytes(source.read_bytes())
    target.chmod(0o600)
    return target


def _folder(path: Path) -> Path:
    path.mkdir()
    return path

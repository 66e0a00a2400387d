"""Ed25519 keys and signatures: who vouches for an artefact.

A signature covers the version, which stands for every byte of the artefact.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from models.inputs.errors import InputError
from models.registry.manifest import SIGNATURE, sha256

PUBLIC_SUFFIX: Final = ".pub"
_PURPOSE: Final = b"hirl model artefact 1\n"
"""Begins what is signed, so that no signature for another purpose fits."""
PINNED: Final = "pinned"
NOBODY: Final = "nobody"
UNCHECKED: Final = "a key that was not checked"
_ID_DIGITS: Final = 16
_LARGEST_KEY: Final = 4096
_OWNER_ONLY: Final = 0o600


class Signature(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The content of the signature's file."""

    key: str
    """Id of the public key."""
    signature: bytes
    """In base64 on disk."""


class Trust(NamedTuple):
    """Who may vouch for artefacts."""

    keys: Mapping[str, Ed25519PublicKey] = {}
    """By id."""
    pinned: frozenset[str] = frozenset()
    """Versions that need no signature, because this package names their digest."""
    unsigned: bool = False
    """Whether an artefact without a signature will do: for files that a person names on a command
    line, never for a service."""


def key_id(key: Ed25519PublicKey) -> str:
    """The first digits of the key's SHA-256."""
    return sha256(key.public_bytes_raw())[:_ID_DIGITS]


def generate(path: Path) -> str:
    """Write a new private key, and the public one beside it; returns its id."""
    public = path.with_name(path.name + PUBLIC_SUFFIX)
    for one in (path, public):
        if one.exists():
            raise InputError(f"{one}: exists already; a key is never overwritten")
    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Readable by its owner only from the first byte on.
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY), "wb") as f:
            f.write(secret)
        public.write_bytes(_pem(key.public_key()))
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None
    return key_id(key.public_key())


def private_key(path: Path) -> Ed25519PrivateKey:
    """Read a private key, which nobody else may be able to read."""
    data = _read(path)
    # Before its rights are judged: a public key is there to be read by others.
    if b"PUBLIC KEY" in data:
        raise InputError(f"{path}: is a public key; give the private one, without {PUBLIC_SUFFIX}")
    if path.stat().st_mode & 0o077:
        raise InputError(f"{path}: others can read this private key; chmod 600 {path}")
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{path}: is no Ed25519 private key; make one with hirl models keygen")
    return key


def trusted_keys(path: Path) -> dict[str, Ed25519PublicKey]:
    """The public keys of a file, or of all files *.pub in a folder, by id."""
    files = sorted(path.glob("*" + PUBLIC_SUFFIX)) if path.is_dir() else [path]
    if not files:
        raise InputError(f"{path}: holds no public key (*{PUBLIC_SUFFIX})")
    keys = [_public_key(file) for file in files]
    return {key_id(key): key for key in keys}


def sign(version: str, key: Ed25519PrivateKey) -> bytes:
    """The content of the signature's file."""
    made = Signature(key=key_id(key.public_key()), signature=key.sign(_message(version)))
    return msgspec.json.encode(made) + b"\n"


def check_signature(version: str, data: bytes | None, trust: Trust, where: str) -> str:
    """Who vouches for a version: the id of a key, `pinned`, or why nobody; raises InputError."""
    if version in trust.pinned:
        return PINNED
    if data is None:
        if trust.unsigned:
            return NOBODY
        raise InputError(
            f"{where}: is not signed, and {version[:12]} is not a version that ships with this "
            "release; hirl models add --key signs it"
        )
    try:
        found = msgspec.json.decode(data, type=Signature)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{where}: {SIGNATURE}: {error}") from None
    key = trust.keys.get(found.key)
    if key is None:
        if trust.unsigned and not trust.keys:
            return UNCHECKED
        known = ", ".join(sorted(trust.keys)) or "none"
        raise InputError(f"{where}: is signed by the key {found.key[:40]!r}; trusted keys: {known}")
    try:
        key.verify(found.signature, _message(version))
    except InvalidSignature:
        raise InputError(
            f"{where}: the signature by {found.key} is not one of {version[:12]}: "
            "the manifest or the signature was changed"
        ) from None
    return found.key


def _message(version: str) -> bytes:
    return _PURPOSE + version.encode()


def _pem(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def _public_key(path: Path) -> Ed25519PublicKey:
    data = _read(path)
    try:
        key = serialization.load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise InputError(f"{path}: is no Ed25519 public key; make one with hirl models keygen")
    return key


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST_KEY)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None

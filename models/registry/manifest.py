"""The manifest of an artefact: what the model is, where it comes from, and a digest of each file.

The version is the SHA-256 of the manifest without its version, in canonical form. The manifest has
the digests of all other files, so the version stands for every byte of the artefact.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from models.inputs.errors import InputError

MODEL: Final = "model.onnx"
MANIFEST: Final = "manifest.json"
SAMPLES: Final = "samples.json"
SIGNATURE: Final = "signature.json"
FORMAT: Final = 1
_FILE_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,40}\.(onnx|json|npz|png)")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_NAME_DIGITS: Final = 8
"""Digits of the network's digest in the name that events carry."""

Kind = Literal["forecaster", "commander-policy", "soldier-policy"]
KINDS: Final[tuple[Kind, ...]] = ("forecaster", "commander-policy", "soldier-policy")


class Tensor(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An input or output of the network."""

    name: str
    shape: list[int | str]
    """Lengths; a name stands for any length."""
    unit: str = ""
    low: float | None = None
    """Smallest value that is meant; a smaller output is a fault."""
    high: float | None = None


class Metric(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A figure with its 95 % interval, from data that the model did not learn from."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a user of the model should know. Field names are those on disk."""

    kind: Kind
    name: str
    """Family and the first digits of the network's SHA-256: what events carry."""
    inputs: list[Tensor]
    outputs: list[Tensor]
    features_sha256: str
    """Digest of the names of all features, in their order."""
    files: dict[str, str]
    """SHA-256 of every other file but the signature."""
    world_sha256: str = ""
    """Digest of the simulated world it was trained in; empty if it learned from no single one."""
    data: list[str] = []
    """What it was trained on."""
    command: str = ""
    """The command that reproduces it."""
    metrics: list[Metric] = []
    code_version: str = ""
    parent: str = ""
    """Version of the model that this one continues; empty if it was trained from scratch."""
    format: int = FORMAT
    version: str = ""
    """Digest of everything above: the artefact's identity."""


def sha256(data: bytes) -> str:
    """The digest of some bytes, as manifests spell it."""
    return hashlib.sha256(data).hexdigest()


def digest_of(value: object) -> str:
    """The digest of plain values, whatever the order of their keys."""
    return sha256(msgspec.json.encode(value, order="deterministic"))


def canonical(manifest: Manifest) -> bytes:
    """The one spelling of a manifest; a file that differs in a byte is refused."""
    text = msgspec.json.encode(manifest, order="deterministic")
    return msgspec.json.format(text, indent=2) + b"\n"


def version_of(manifest: Manifest) -> str:
    """The version that a manifest must have."""
    return sha256(canonical(msgspec.structs.replace(manifest, version="")))


def sealed(manifest: Manifest, files: Mapping[str, bytes]) -> Manifest:
    """The manifest with the digests of its files, and with its version."""
    digests = {name: sha256(files[name]) for name in sorted(files)}
    found = msgspec.structs.replace(manifest, files=digests, version="")
    return msgspec.structs.replace(found, version=version_of(found))


def name_of(family: str, network: bytes) -> str:
    """The name that events carry."""
    return f"{family}/{sha256(network)[:_NAME_DIGITS]}"


def read_manifest(data: bytes, where: str) -> Manifest:
    """Decode and check a manifest; raises InputError with the first thing that is wrong."""
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    # A deep nesting raises RecursionError.
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{where}: {MANIFEST}: {error}") from None
    if manifest.format != FORMAT:
        raise InputError(
            f"{where}: {MANIFEST}: expected format {FORMAT}, got {manifest.format}; "
            "another release wrote it"
        )
    for name, digest in manifest.files.items():
        check_file_name(name, where)
        if not is_digest(digest):
            raise InputError(f"{where}: {MANIFEST}: the digest of {name} is no SHA-256")
    if MODEL not in manifest.files:
        raise InputError(f"{where}: {MANIFEST}: lists no {MODEL}")
    if data != canonical(manifest):
        raise InputError(f"{where}: {MANIFEST}: is not in canonical form; write it with `hirl`")
    if manifest.version != (expected := version_of(manifest)):
        raise InputError(
            f"{where}: {MANIFEST}: says version {manifest.version[:12] or 'none'}, "
            f"its content is {expected[:12]}"
        )
    return manifest


def is_digest(text: str) -> bool:
    """Whether a text is a SHA-256; nothing else may become a part of a path."""
    return _DIGEST.fullmatch(text) is not None


def check_file_name(name: str, where: str) -> None:
    """Refuse names of files that lead elsewhere or that no artefact has."""
    if _FILE_NAME.fullmatch(name) is None:
        raise InputError(
            f"{where}: {name[:80]!r} is no name of a file in an artefact: expected small letters "
            "and digits, and .onnx, .json, .npz or .png"
        )

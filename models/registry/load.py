"""Turns the files of an artefact into one that may be served, in the only safe order.

Names and sizes first, then the manifest's form and version, the digests, who vouches for them, the
graph, and the samples. Only after that does `session.py` give the network to onnxruntime.
"""

from collections.abc import Mapping
from math import prod
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from models.inputs.errors import InputError
from models.registry.contract import check_contract
from models.registry.drift import FEATURES, Distribution, read_features
from models.registry.keys import Trust, check_signature
from models.registry.manifest import (
    MANIFEST,
    MODEL,
    SAMPLES,
    SIGNATURE,
    Manifest,
    check_file_name,
    read_manifest,
    sha256,
)

LARGEST_FILE: Final = 64 * 2**20
LARGEST_ARTEFACT: Final = 96 * 2**20
MOST_FILES: Final = 16
_LARGEST_TEXT: Final = 4 * 2**20
"""Of a JSON file: decoded, it takes several times as much."""
ROWS: Final = "rows"
"""Name of the axis of independent decisions."""
_MOST_SAMPLES: Final = 1000

Arrays = Mapping[str, NDArray[np.float32]]


class Samples(NamedTuple):
    """States with the outputs that the network gave for them when it was exported."""

    inputs: Arrays
    outputs: Arrays


class Artefact(NamedTuple):
    """Files that match their manifest, which somebody trusted vouches for."""

    manifest: Manifest
    network: bytes
    samples: Samples | None
    signed_by: str
    """Id of the key, `pinned`, or `nobody` where that was allowed."""
    files: Mapping[str, bytes]
    """All of them, the manifest and the signature included."""
    features: Mapping[str, Distribution] | None = None
    """Distributions of its features in training."""

    @property
    def states(self) -> int:
        """Number of samples."""
        if self.samples is None:
            return 0
        by_row = [one.name for one in self.manifest.inputs if one.shape[:1] == [ROWS]]
        return int(self.samples.inputs[by_row[0]].shape[0])

    @property
    def version(self) -> str:
        """The digest that stands for every byte."""
        return self.manifest.version

    @property
    def name(self) -> str:
        """What events carry."""
        return self.manifest.name


class _Array(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    shape: list[int]
    values: list[float]


class _Samples(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    inputs: dict[str, _Array]
    outputs: dict[str, _Array]


def limit_of(name: str) -> int:
    """The most bytes that a file of this name may have."""
    return _LARGEST_TEXT if name.endswith(".json") else LARGEST_FILE


def verified(files: Mapping[str, bytes], trust: Trust, where: str) -> Artefact:
    """Check the files of an artefact; raises InputError with one line that says what is wrong."""
    _check_files(files, where)
    if MANIFEST not in files:
        raise InputError(f"{where}: holds no {MANIFEST}; hirl models add makes one")
    manifest = read_manifest(files[MANIFEST], where)
    signed_by = check_signature(manifest.version, files.get(SIGNATURE), trust, where)
    _check_digests(manifest, files, where)
    check_contract(manifest, where)
    # Imported here: it loads onnx, and most refused artefacts do not get this far.
    from models.registry.graph import check_graph  # noqa: PLC0415

    check_graph(files[MODEL], manifest.inputs, manifest.outputs, f"{where}: {MODEL}")
    samples = read_samples(files[SAMPLES], manifest, where) if SAMPLES in files else None
    features = read_features(files[FEATURES], where) if FEATURES in files else None
    return Artefact(manifest, files[MODEL], samples, signed_by, files, features)


def _check_files(files: Mapping[str, bytes], where: str) -> None:
    if len(files) > MOST_FILES:
        raise InputError(f"{where}: expected at most {MOST_FILES} files, got {len(files)}")
    for name, data in files.items():
        check_file_name(name, where)
        if len(data) > limit_of(name):
            raise InputError(f"{where}: {name}: is larger than {limit_of(name) >> 20} MiB")
    if sum(map(len, files.values())) > LARGEST_ARTEFACT:
        raise InputError(f"{where}: is larger than {LARGEST_ARTEFACT >> 20} MiB")


def _check_digests(manifest: Manifest, files: Mapping[str, bytes], where: str) -> None:
    present = files.keys() - {MANIFEST, SIGNATURE}
    if missing := sorted(manifest.files.keys() - present):
        raise InputError(f"{where}: {missing[0]}: the manifest lists it, and it is not there")
    if extra := sorted(present - manifest.files.keys()):
        raise InputError(f"{where}: {extra[0]}: the manifest does not list it")
    for name, digest in manifest.files.items():
        if sha256(files[name]) != digest:
            raise InputError(
                f"{where}: {name}: was changed or truncated: its SHA-256 is not the manifest's"
            )


# Samples.


def write_samples(samples: Samples) -> bytes:
    """Samples as the content of their file."""
    return msgspec.json.encode(_Samples(_plain(samples.inputs), _plain(samples.outputs)))


def read_samples(data: bytes, manifest: Manifest, where: str) -> Samples:
    """Decode and check samples: every input with the same rows, and what came out."""
    where = f"{where}: {SAMPLES}"
    try:
        found = msgspec.json.decode(data, type=_Samples)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{where}: {error}") from None
    samples = Samples(_arrays(found.inputs, where), _arrays(found.outputs, where))
    inputs, outputs = (
        {tensor.name for tensor in ports} for ports in (manifest.inputs, manifest.outputs)
    )
    if samples.inputs.keys() != inputs:
        raise InputError(f"{where}: expected the inputs {', '.join(sorted(inputs))}")
    # Not all outputs are served, and those that are not need no comparison.
    if not samples.outputs or not samples.outputs.keys() <= outputs:
        raise InputError(f"{where}: expected outputs among {', '.join(sorted(outputs))}")
    # The other inputs are the same for all rows, such as which domain calls which.
    by_row = [tensor.name for tensor in manifest.inputs if tensor.shape[:1] == [ROWS]]
    rows = {samples.inputs[name].shape[0] if samples.inputs[name].ndim else 0 for name in by_row}
    if len(rows) != 1 or not 0 < min(rows) <= _MOST_SAMPLES:
        raise InputError(f"{where}: expected 1 to {_MOST_SAMPLES} states, of every input as many")
    return samples


def _plain(arrays: Arrays) -> dict[str, _Array]:
    # As text first: the fewest digits that give the same float32, half of those of a float64.
    return {
        name: _Array(list(values.shape), [float(text) for text in values.ravel().astype(np.str_)])
        for name, values in arrays.items()
    }


def _arrays(found: Mapping[str, _Array], where: str) -> Arrays:
    arrays = {}
    for name, one in found.items():
        if any(length < 0 for length in one.shape) or prod(one.shape) != len(one.values):
            raise InputError(f"{where}: {name[:40]}: {len(one.values)} numbers for {one.shape[:8]}")
        # A number beyond float32 becomes inf, and the check of the outputs refuses that.
        with np.errstate(over="ignore"):
            arrays[name] = np.array(one.values, np.float32).reshape(one.shape)
    return arrays

"""An artefact is served as it was signed, or refused with one line that says why."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from models.inputs.errors import InputError
from models.registry.keys import Trust, sign
from models.registry.load import LARGEST_FILE, MOST_FILES, verified
from models.registry.manifest import (
    MANIFEST,
    MODEL,
    SAMPLES,
    SIGNATURE,
    canonical,
    read_manifest,
    sealed,
    version_of,
)
from tests.planted_models import (
    FEATURES,
    KEY,
    OTHER_KEY,
    TRUST,
    files_of,
    linear_policy,
    manifest_of,
    model,
    node,
    port,
    reparsed,
    samples_of,
    weights,
)

GOOD = linear_policy()
Files = dict[str, bytes]


def refusal(files: Files, trust: Trust = TRUST) -> str:
    with pytest.raises(InputError) as found:
        verified(files, trust, "x")
    line = str(found.value)
    assert "\n" not in line
    assert line.startswith("x: ")
    assert len(line) < 400
    return line


def test_a_signed_artefact_is_accepted_and_says_who_signed_it() -> None:
    found = verified(files_of(GOOD, extra=samples_of(1.0)), TRUST, "x")
    assert found.signed_by in TRUST.keys
    assert found.network == GOOD
    assert found.samples is not None
    assert found.samples.inputs["features"].shape == (10, 3, FEATURES)


def test_the_version_stands_for_every_byte() -> None:
    one = verified(files_of(GOOD), TRUST, "x").version
    assert verified(files_of(GOOD), TRUST, "x").version == one
    assert verified(files_of(linear_policy(1.25)), TRUST, "x").version != one
    assert verified(files_of(GOOD, extra=samples_of(1.0)), TRUST, "x").version != one
    other = manifest_of(GOOD, command="another")
    assert verified(files_of(GOOD, other), TRUST, "x").version != one


def test_a_pinned_version_needs_no_signature_and_any_other_does() -> None:
    files = files_of(GOOD, key=None)
    version = read_manifest(files[MANIFEST], "x").version
    assert verified(files, Trust(pinned=frozenset({version})), "x").signed_by == "pinned"
    assert "is not signed" in refusal(files, Trust(pinned=frozenset({"0" * 64})))
    assert verified(files, Trust(unsigned=True), "x").signed_by == "nobody"


def changed_manifest(**changes: Any) -> Callable[[Files], None]:
    """Change the manifest without its version, as an attacker would."""

    def change(files: Files) -> None:
        manifest = msgspec.json.decode(files[MANIFEST])
        files[MANIFEST] = msgspec.json.format(msgspec.json.encode(manifest | changes), indent=2)

    return change


def resealed(**changes: Any) -> Callable[[Files], None]:
    """Change the manifest and its version, and keep the old signature."""

    def change(files: Files) -> None:
        manifest = msgspec.structs.replace(read_manifest(files[MANIFEST], "x"), **changes)
        manifest = msgspec.structs.replace(manifest, version="")
        files[MANIFEST] = canonical(msgspec.structs.replace(manifest, version=version_of(manifest)))

    return change


def resigned(files: Files) -> None:
    files[SIGNATURE] = sign(read_manifest(files[MANIFEST], "x").version, OTHER_KEY)


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda f: f.pop(MANIFEST), "holds no manifest.json"),
        (lambda f: f.pop(MODEL), "model.onnx: the manifest lists it, and it is not there"),
        (lambda f: f.pop(SIGNATURE), "is not signed"),
        (lambda f: f.update({MODEL: GOOD[:-1]}), "model.onnx: was changed or truncated"),
        (lambda f: f.update({MODEL: b""}), "model.onnx: was changed or truncated"),
        (lambda f: f.update({"extra.json": b"{}"}), "extra.json: the manifest does not list it"),
        (lambda f: f.update({"../../etc/x.json": b""}), "is no name of a file in an artefact"),
        (lambda f: f.update({"run.py": b""}), "is no name of a file in an artefact"),
        (lambda f: f.update({"model.pkl": b""}), "is no name of a file in an artefact"),
        (lambda f: f.update({f"n{i}.json": b"" for i in range(MOST_FILES)}), "at most 16 files"),
        (lambda f: f.update({MANIFEST: b"not json"}), "manifest.json: JSON is malformed"),
        (lambda f: f.update({MANIFEST: b"\xff\xfe"}), "manifest.json"),
        (lambda f: f.update({MANIFEST: b"[" * 100_000}), "manifest.json"),
        (lambda f: f.update({MANIFEST: f[MANIFEST] + b" "}), "is not in canonical form"),
        (changed_manifest(command="other"), "canonical form"),
        (changed_manifest(kind="pickle"), "kind"),
        (changed_manifest(surprise=1), "unknown field"),
        (resealed(command="other"), "the manifest or the signature was changed"),
        (resealed(format=2), "expected format 1, got 2"),
        (resealed(files={"../model.onnx": "0" * 64}), "is no name of a file"),
        (resealed(files={"a.json": "0" * 64}), "lists no model.onnx"),
        (resealed(files={MODEL: "short"}), "is no SHA-256"),
        (resigned, "trusted keys"),
        (lambda f: f.update({SIGNATURE: b"{}"}), "signature.json"),
        (lambda f: f.update({SIGNATURE: b"\x00" * 64}), "signature.json"),
    ],
)  # fmt: skip
def test_what_was_changed_is_refused_and_named(
    spoil: Callable[[Files], object], complaint: str
) -> None:
    files = files_of(GOOD, extra=samples_of(1.0))
    spoil(files)
    assert complaint in refusal(files)


def test_a_file_beyond_the_limit_is_refused_before_anything_else() -> None:
    assert "larger than 64 MiB" in refusal({MODEL: bytes(LARGEST_FILE + 1)})
    assert "larger than 4 MiB" in refusal({MANIFEST: bytes(5 * 2**20)})


def with_version_of_another(files: Files) -> None:
    files[SIGNATURE] = files_of(linear_policy(1.5))[SIGNATURE]


def test_the_signature_of_another_artefact_does_not_fit() -> None:
    files = files_of(GOOD)
    with_version_of_another(files)
    assert "the manifest or the signature was changed" in refusal(files)


# The network.


def bad_network(network: bytes, **more: Any) -> str:
    """What is said about a network that its author signed all the same."""
    return refusal(files_of(network, manifest_of(network, **more)))


def spoiled(change: Callable[[Any], object]) -> bytes:
    found = reparsed(GOOD)
    change(found)
    data: bytes = found.SerializeToString()
    return data


def growing(length: int) -> bytes:
    """A small file whose network makes a huge tensor."""
    shape = weights("shape", [length, length], np.int64)
    nodes = [
        node("ConstantOfShape", ["shape"], "large"),
        node("ReduceSum", ["large"], "sum", keepdims=0),
        node("ReduceSum", ["features", "axes"], "base", keepdims=0),
        node("Add", ["base", "sum"], "headroom"),
        node("Add", ["base", "sum"], "urgency"),
    ]
    return model(nodes, [shape, weights("axes", [2], np.int64)])


def subgraph() -> bytes:
    inner = helper.make_graph([node("Identity", ["base"], "y")], "inner", [], [port("y", [])])
    nodes = [
        node("ReduceSum", ["features", "axes"], "base", keepdims=0),
        node("If", ["condition"], "headroom", then_branch=inner, else_branch=inner),
        node("Identity", ["base"], "urgency"),
    ]
    return model(nodes, [weights("axes", [2], np.int64), weights("condition", True, np.bool_)])


def external(found: Any) -> None:
    tensor = found.graph.initializer[1]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "../../../etc/passwd"


def claimed(found: Any) -> None:
    del found.graph.initializer[1].dims[:]
    found.graph.initializer[1].dims.extend([2**20, 2**20])


def cut(found: Any) -> None:
    found.graph.initializer[1].raw_data = b"\x00"


def not_a_number(found: Any) -> None:
    found.graph.initializer[1].raw_data = np.full((FEATURES, 1), np.nan, np.float32).tobytes()


def foreign(found: Any) -> None:
    found.graph.node[0].op_type, found.graph.node[0].domain = "Evil", "custom"


@pytest.mark.parametrize(
    ("network", "complaint"),
    [
        (b"not a model", "is no ONNX file"),
        (GOOD[: len(GOOD) // 2], "is no ONNX file"),
        (spoiled(foreign), "operator 'custom:Evil' is not on the allow-list"),
        (
            spoiled(lambda m: setattr(m.graph.node[0], "op_type", "StringNormalizer")),
            "'StringNormalizer' is not on the allow-list",
        ),
        (spoiled(lambda m: setattr(m.graph.node[0], "op_type", "Loop")), "'Loop' is not on"),
        (subgraph(), "operator 'If' is not on the allow-list"),
        (spoiled(external), "are in another file"),
        (spoiled(claimed), "are too large"),
        (spoiled(cut), "bytes, not"),
        (spoiled(not_a_number), "are not all numbers"),
        (model([node("Identity", ["features"], "headroom")], domain="evil"), "of ONNX itself"),
        (spoiled(lambda m: setattr(m.opset_import[0], "version", 9)), "expected opset 17 to"),
        (spoiled(lambda m: m.graph.ClearField("node")), "expected 1 to 20,000 nodes, got 0"),
        (growing(2**20), "over 16,777,216"),
        (linear_policy(features=FEATURES + 1), "input features: expected the shape"),
        (
            model([node("Identity", ["features"], "headroom")], outputs=("headroom",)),
            "expected the outputs headroom, urgency, got headroom",
        ),
    ],
)
def test_a_signed_network_that_may_not_run_is_refused(network: bytes, complaint: str) -> None:
    assert complaint in bad_network(network)


def test_outputs_are_those_of_the_kind_with_their_ranges() -> None:
    outputs = manifest_of(GOOD).outputs
    renamed = [msgspec.structs.replace(outputs[0], name="budget"), outputs[1]]
    assert "expected the outputs headroom, urgency" in bad_network(GOOD, outputs=renamed)
    wider = [msgspec.structs.replace(outputs[0], high=1e30), outputs[1]]
    assert "values within 0.8 to 1.25" in bad_network(GOOD, outputs=wider)


@pytest.mark.parametrize(
    ("samples", "complaint"),
    [
        (b"{", "samples.json"),
        ({"inputs": {}, "outputs": {}}, "expected the inputs features"),
        (
            {"inputs": {"features": {"shape": [2, 2], "values": [1.0]}}, "outputs": {}},
            "1 numbers for [2, 2]",
        ),
        (
            {"inputs": {"features": {"shape": [1], "values": [1.0]}}, "outputs": {}},
            "expected outputs among",
        ),
        (
            {
                "inputs": {"features": {"shape": [], "values": [1.0]}},
                "outputs": {"headroom": {"shape": [1], "values": [1.0]}},
            },
            "expected 1 to 1000 states",
        ),
    ],
)
def test_samples_that_do_not_fit_are_refused(samples: Any, complaint: str) -> None:
    data = samples if isinstance(samples, bytes) else json.dumps(samples).encode()
    assert complaint in refusal(files_of(GOOD, extra={SAMPLES: data}))


# Fuzzing: whatever the bytes, one line or the artefact as it was signed.


def outcome(files: Files) -> str:
    """Accepted with the network that was signed, or refused in one line; anything else raises."""
    try:
        found = verified(files, TRUST, "x")
    except InputError as error:
        return "refused" if "\n" not in str(error) else str(error)
    return "accepted" if found.network == files[MODEL] else "changed"


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_change_of_bytes_is_accepted_or_raises_anything_else(data: st.DataObject) -> None:
    files = files_of(GOOD, extra=samples_of(1.0))
    name = data.draw(st.sampled_from(sorted(files)))
    at = data.draw(st.integers(0, len(files[name]) - 1))
    length = data.draw(st.integers(0, 8))
    replaced = data.draw(st.binary(max_size=8))
    spoiled_file = files[name][:at] + replaced + files[name][at + length :]
    if spoiled_file == files[name]:
        return
    files[name] = spoiled_file
    if name == SIGNATURE:
        # Other spellings of the same signature exist; none vouches for anything else.
        assert outcome(files) in ("accepted", "refused")
        return
    refusal(files)


@pytest.mark.parametrize("name", [b"urgency", b"Squeeze", b"axis"])
def test_a_network_with_names_that_are_no_text_is_refused_in_one_line(name: bytes) -> None:
    network = GOOD.replace(name, b"\x80" * len(name))
    with pytest.raises(InputError, match="names that are no text"):
        verified(files_of(network, manifest_of(network)), TRUST, "x")


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_network_that_its_author_broke_is_refused_or_loads(data: st.DataObject) -> None:
    # Signed by a trusted key, so that the bytes reach the parser.
    at = data.draw(st.integers(0, len(GOOD) - 1))
    length = data.draw(st.integers(0, 8))
    network = GOOD[:at] + data.draw(st.binary(max_size=8)) + GOOD[at + length :]
    assert outcome(files_of(network, manifest_of(network))) in ("accepted", "refused")


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.text(max_size=20), st.binary(max_size=200), max_size=4))
def test_random_files_are_refused_in_one_line(files: Files) -> None:
    refusal(files)


def test_the_key_is_an_ed25519_key_that_signs_versions() -> None:
    manifest = sealed(manifest_of(GOOD), {MODEL: GOOD})
    assert sign(manifest.version, KEY) == sign(manifest.version, KEY)

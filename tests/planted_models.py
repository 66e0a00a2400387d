"""Small networks made by hand, and artefacts of them, for tests of loading and serving."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import onnx
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from onnx import TensorProto, helper, numpy_helper

from models.forecaster.learned.artefact import SHIPPED
from models.forecaster.learned.features import FEATURE_NAMES
from models.policies import contract, packing
from models.policies.artefact import CARD, NETWORK, Card
from models.policies.features import feature_names
from models.registry import drift
from models.registry.contract import POLICY_OUTPUTS
from models.registry.keys import Trust, key_id, sign
from models.registry.load import Artefact, Samples, verified, write_samples
from models.registry.manifest import (
    MANIFEST,
    MODEL,
    SAMPLES,
    SIGNATURE,
    Kind,
    Manifest,
    Tensor,
    canonical,
    name_of,
    read_manifest,
    sealed,
)
from models.registry.store import read_folder

KEY: Final = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER_KEY: Final = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
PUBLIC_PEM: Final = KEY.public_key().public_bytes(
    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
)
TRUST: Final = Trust({key_id(KEY.public_key()): KEY.public_key()})
FEATURES: Final = 4


def node(operator: str, inputs: Sequence[str], output: str, **attributes: Any) -> Any:
    return helper.make_node(operator, list(inputs), [output], **attributes)


def weights(name: str, values: Any, dtype: Any = np.float32) -> Any:
    return numpy_helper.from_array(np.asarray(values, dtype), name)


def port(name: str, shape: Sequence[int | str]) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))


def model(
    nodes: Sequence[Any],
    initial: Sequence[Any] = (),
    outputs: Sequence[str] = ("headroom", "urgency"),
    opset: int = 20,
    domain: str = "",
    features: int = FEATURES,
) -> bytes:
    """A network with one input, `features` of each domain, and outputs of each domain."""
    graph = helper.make_graph(
        list(nodes),
        "planted",
        [port("features", ["rows", "domains", features])],
        [port(name, ["rows", "domains"]) for name in outputs],
        list(initial),
    )
    opsets = [helper.make_opsetid("", opset)]
    if domain:
        opsets.append(helper.make_opsetid(domain, 1))
    made = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    data: bytes = made.SerializeToString()
    return data


def linear_policy(
    headroom: float = 1.0, urgency: float = 1.0, slope: float = 0.0, features: int = FEATURES
) -> bytes:
    """Each output is a constant, plus the sum of the features times the slope."""
    axis = weights("axis", [2], np.int64)
    nodes, initial = [], [axis]
    for name, value in (("headroom", headroom), ("urgency", urgency)):
        initial += [
            weights(f"{name}_w", np.full((features, 1), slope)), weights(f"{name}_b", [value])
        ]  # fmt: skip
        nodes += [
            node("MatMul", ["features", f"{name}_w"], f"{name}_m"),
            node("Add", [f"{name}_m", f"{name}_b"], f"{name}_a"),
            node("Squeeze", [f"{name}_a", "axis"], name),
        ]
    return model(nodes, initial, features=features)


def manifest_of(
    network: bytes, kind: Kind = "commander-policy", features: int = FEATURES, **more: Any
) -> Manifest:
    outputs = [
        Tensor(name=name, shape=["rows", "domains"], unit=one.unit, low=one.low, high=one.high)
        for name, one in POLICY_OUTPUTS[kind].items()
        if name in ("headroom", "urgency")
    ]
    return Manifest(
        kind=kind,
        name=name_of(kind.partition("-")[0], network),
        inputs=[Tensor(name="features", shape=["rows", "domains", features])],
        **{
            "outputs": outputs,
            "features_sha256": "0" * 64,
            "files": {},
            "command": "planted",
        }
        | more,
    )


def files_of(
    network: bytes,
    manifest: Manifest | None = None,
    key: Ed25519PrivateKey | None = KEY,
    extra: Mapping[str, bytes] = {},
) -> dict[str, bytes]:
    """All files of an artefact, signed unless the key is None."""
    files = {MODEL: network, **extra}
    made = sealed(manifest or manifest_of(network), files)
    signed = {} if key is None else {SIGNATURE: sign(made.version, key)}
    return {**files, MANIFEST: canonical(made), **signed}


def artefact_of(network: bytes, **more: Any) -> Artefact:
    return verified(files_of(network, manifest_of(network, **more)), TRUST, "planted")


def samples_of(expected: float, features: int = FEATURES) -> dict[str, bytes]:
    """Samples of a constant policy."""
    states = np.random.default_rng(0).normal(size=(10, 3, features)).astype(np.float32)
    constant = np.full((10, 3), expected, np.float32)
    outputs = {"headroom": constant, "urgency": constant}
    return {SAMPLES: write_samples(Samples({"features": states}, outputs))}


def reparsed(data: bytes) -> Any:
    """The model of some bytes, to be changed."""
    return onnx.load_model_from_string(data)


# Policies with the contract of the product.


def commander_network(bad: str = "", **values: float) -> bytes:
    """A Commander's network with constant outputs, neutral where no value is given.

    `bad` is what becomes of its headroom: `nan`, `inf`, or `slow`, which is right and late.
    """
    nodes, initial = [], [weights("axis", [2], np.int64), weights("zero", 0.0)]
    for port_ in contract.OUTPUTS:
        neutral = 0.0 if port_.name in ("pods", "nodes") else 1.0
        source, width = ("cluster", 1) if port_.name == "spare" else ("domain", 1)
        width = 3 if port_.name in ("pods", "nodes") else width
        columns = contract.CLUSTER_COLUMNS if source == "cluster" else contract.DOMAIN_COLUMNS
        value = np.full(width, values.get(port_.name, neutral))
        name = port_.name
        initial += [
            weights(f"{name}_w", np.zeros((len(columns), width))), weights(f"{name}_b", value)
        ]  # fmt: skip
        squeezed = len(port_.shape) == 2 and source == "domain"
        last = f"{name}_a" if squeezed else name
        nodes += [
            node("MatMul", [source, f"{name}_w"], f"{name}_m"),
            node("Add", [f"{name}_m", f"{name}_b"], last),
        ]
        if squeezed:
            broken = bool(bad) and name == "headroom"
            nodes.append(node("Squeeze", [last, "axis"], f"{name}_s" if broken else name))
            if broken:
                more_nodes, more_initial = _spoiled(bad, "cluster", f"{name}_s", name)
                nodes, initial = [*nodes, *more_nodes], [*initial, *more_initial]
    ports = [
        [port(one.name, one.shape) for one in group]
        for group in (contract.INPUTS, contract.OUTPUTS)
    ]
    graph = helper.make_graph(nodes, "planted", ports[0], ports[1], initial)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    data: bytes = made.SerializeToString()
    return data


def _spoiled(bad: str, source: str, value: str, result: str) -> tuple[list[Any], list[Any]]:
    """Nodes and weights that spoil a value; `zero` is there already."""
    if bad == "inf":
        return [node("Div", [value, "zero"], result)], []
    if bad == "nan":
        return [node("Mul", [value, "zero"], "none"), node("Div", ["none", "zero"], result)], []
    # Products of matrices that depend on the input, so that they are not computed beforehand.
    size = 1024
    nodes = [node("ReduceSum", [source], "given", keepdims=0), node("Add", ["given", "ones"], "p0")]
    nodes += [node("MatMul", [f"p{n}", "mean"], f"p{n + 1}") for n in range(12)]
    nodes += [
        node("ReduceSum", ["p12"], "late", keepdims=0), node("Mul", ["late", "zero"], "delay"),
        node("Add", [value, "delay"], result),
    ]  # fmt: skip
    constants = np.ones((size, size)), np.full((size, size), 1.0 / size)
    return nodes, [weights("ones", constants[0]), weights("mean", constants[1])]


def commander_files(
    network: bytes,
    key: Ed25519PrivateKey | None = KEY,
    extra: Mapping[str, bytes] = {},
    **changes: Any,
) -> dict[str, bytes]:
    """An artefact of a Commander's network, without samples."""
    manifest = msgspec.structs.replace(packing.manifest_of("commander-policy", network), **changes)
    return files_of(network, manifest, key, extra)


def soldier_network(need: float = 1.0, bad: str = "", slope: float = 0.0) -> bytes:
    """A Soldiers' network: a constant, plus the sum of a member's features times the slope.

    Within the range of the output. `bad` is what becomes of that, as for a Commander's.
    """
    output = contract.SOLDIER_OUTPUTS[0]
    columns = len(contract.MEMBER_COLUMNS)
    initial = [
        weights("w", np.full((columns, 1), slope)), weights("b", [need]),
        weights("nothing", np.zeros((columns, 1))), weights("one", [1.0]),
        weights("axis", [2], np.int64), weights("low", output.low), weights("high", output.high),
        weights("zero", 0.0),
    ]  # fmt: skip
    nodes = [
        node("MatMul", ["member", "w"], "m"), node("Squeeze", ["m", "axis"], "s"),
        node("Add", ["s", "b"], "a"), node("MatMul", ["member", "nothing"], "n"),
        node("Squeeze", ["n", "axis"], "z"), node("Add", ["z", "one"], "cpu"),
    ]  # fmt: skip
    if bad:
        more_nodes, more_initial = _spoiled(bad, "member", "a", "need")
        nodes, initial = [*nodes, *more_nodes], [*initial, *more_initial]
    elif output.low <= need <= output.high:
        nodes.append(node("Clip", ["a", "low", "high"], "need"))
    else:
        nodes.append(node("Identity", ["a"], "need"))
    ports = [
        [port(one.name, one.shape) for one in group]
        for group in (contract.SOLDIER_INPUTS, contract.SOLDIER_OUTPUTS)
    ]
    graph = helper.make_graph(nodes, "planted", ports[0], ports[1], initial)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    data: bytes = made.SerializeToString()
    return data


def soldier_files(
    network: bytes,
    key: Ed25519PrivateKey | None = KEY,
    extra: Mapping[str, bytes] = {},
    **changes: Any,
) -> dict[str, bytes]:
    """An artefact of a Soldiers' network, without samples."""
    manifest = msgspec.structs.replace(packing.manifest_of("soldier-policy", network), **changes)
    return files_of(network, manifest, key, extra)


def features(kind: Kind, *, spread: float) -> dict[str, bytes]:
    """Features of a training in which all of them were near 4.5; runs differed by `spread`."""
    far = drift.Distribution(values=[4.4, 4.5, 4.6], shares=[0.0, 0.5, 1.0], spread=spread)
    names = FEATURE_NAMES if kind == "forecaster" else feature_names(kind)
    return {drift.FEATURES: drift.write_features(dict.fromkeys(names, far))}


def trained_folder(folder: Path, family: str, network: bytes) -> Path:
    """A policy as training writes it, for the in-process run."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NETWORK).write_bytes(network)
    card = Card(
        model=name_of(family, network), contract=contract.VERSION, command="planted", args={},
        scenarios=[], seeds=[], apps=0, world="", heuristic="", decisions=0, minutes=0.0,
        parity=0.0, curve=[],
    )  # fmt: skip
    (folder / CARD).write_bytes(msgspec.json.encode(card))
    return folder


_SOUND: Final = "quantiles_sound"


def forecaster_files(
    bad: str = "", change: float = 1e-6, extra: Mapping[str, bytes] = {}
) -> dict[str, bytes]:
    """The shipped forecaster, slightly changed and signed; `bad`: `nan`, always."""
    files = read_folder(SHIPPED)
    network = reparsed(files[MODEL])
    first = network.graph.initializer[0]
    values = numpy_helper.to_array(first).copy()
    values.flat[0] += change
    first.CopyFrom(numpy_helper.from_array(values, first.name))
    if bad:
        for made in network.graph.node:
            made.output[:] = [_SOUND if name == "quantiles" else name for name in made.output]
        network.graph.initializer.append(weights("nothing_at_all", np.float32(0.0)))
        network.graph.node.extend(
            [
                node("Mul", [_SOUND, "nothing_at_all"], "none"),
                node("Div", ["none", "nothing_at_all"], "quantiles"),
            ]
        )
    data: bytes = network.SerializeToString()
    manifest = read_manifest(files[MANIFEST], "shipped")
    name = name_of("tft", data)
    card = msgspec.json.decode(files[CARD]) | {"model": name}
    others = {CARD: msgspec.json.encode(card), SAMPLES: files[SAMPLES], **extra}
    return files_of(data, msgspec.structs.replace(manifest, name=name), KEY, others)

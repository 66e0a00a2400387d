"""Checks a network before anything runs it: known operators only, and nothing that grows.

The graph is parsed by `onnx`. onnxruntime has no way to list operators without creating a session,
and creating one already computes constants.
"""

from collections.abc import Sequence
from math import prod
from typing import Any, Final, Protocol

import numpy as np
import onnx
from onnx import numpy_helper

from models.inputs.errors import InputError

OPERATORS: Final = frozenset({
    "Abs", "Add", "And", "Cast", "Ceil", "Clip", "Concat", "Constant", "ConstantOfShape",
    "CumSum", "Div", "Einsum", "Elu", "Equal", "Erf", "Exp", "Expand", "Flatten", "Floor", "GRU",
    "Gather", "GatherElements", "GatherND", "Gelu", "Gemm", "Greater", "GreaterOrEqual",
    "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN", "LSTM", "LayerNormalization",
    "LeakyRelu", "Less", "LessOrEqual", "Log", "LogSoftmax", "MatMul", "Max", "Mean", "Min",
    "Mod", "Mul", "Neg", "Not", "Or", "Pow", "Reciprocal", "ReduceL2", "ReduceMax", "ReduceMean",
    "ReduceMin", "ReduceProd", "ReduceSum", "Relu", "Reshape", "Round", "Selu", "Shape",
    "Sigmoid", "Sign", "Slice", "Softmax", "Softplus", "Softsign", "Split", "Sqrt", "Squeeze",
    "Sub", "Sum", "Tan", "Tanh", "TopK", "Transpose", "Unsqueeze", "Where", "Xor",
})  # fmt: skip
"""Arithmetic on tensors. None has a graph inside, keeps state, draws random numbers or reads a file
or a string."""
OPSETS: Final = range(17, 24)
"""Versions of the operators that the locked onnxruntime was tested with."""
_MOST_NODES: Final = 20_000
_MOST_VALUES: Final = 2**24
"""In one tensor: 64 MiB of float32."""
_ANY_LENGTH: Final = 4096
"""Stands for an axis of any length when sizes are estimated."""
_GROWING: Final = frozenset({"ConstantOfShape", "Expand"})
"""Operators whose result can be far larger than their inputs, by numbers in the file."""
_DTYPES: Final = {
    onnx.TensorProto.FLOAT: 4,
    onnx.TensorProto.DOUBLE: 8,
    onnx.TensorProto.INT32: 4,
    onnx.TensorProto.INT64: 8,
    onnx.TensorProto.BOOL: 1,
}
"""Bytes by type of tensor."""


class Port(Protocol):
    """An input or output that is expected."""

    @property
    def name(self) -> str:
        """As the graph has it."""
        ...

    @property
    def shape(self) -> Sequence[int | str]:
        """Lengths; a name stands for any length."""
        ...


def check_graph(data: bytes, inputs: Sequence[Port], outputs: Sequence[Port], where: str) -> None:
    """Refuse a network that may not run; raises InputError with the first thing that is wrong."""
    try:
        model = onnx.load_model_from_string(data)
    except Exception as error:  # noqa: BLE001  protobuf's errors are not part of onnx
        raise InputError(f"{where}: is no ONNX file, or a truncated one ({_line(error)})") from None
    graph = model.graph
    _check_names(model, where)
    _check_model(model, where)
    for node in graph.node:
        _check_node(node, where)
    for tensor in graph.initializer:
        _check_tensor(tensor, where)
    _check_ports(graph.input, graph.initializer, inputs, "input", where)
    _check_ports(graph.output, (), outputs, "output", where)
    _check_sizes(model, where)


def _check_names(model: Any, where: str) -> None:
    """Refuse names that are no UTF-8: protobuf returns them as bytes."""
    graph = model.graph
    names = [entry.domain for entry in model.opset_import]
    names += [one.name for one in (*graph.input, *graph.output, *graph.initializer)]
    for node in graph.node:
        names += [node.domain, node.op_type, *node.input, *node.output]
    if not all(isinstance(name, str) for name in names):
        raise InputError(f"{where}: has names that are no text")


def _check_model(model: Any, where: str) -> None:
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    if set(opsets) - {"", "ai.onnx"} or not opsets:
        got = ", ".join(sorted(opsets)) or "none"
        raise InputError(f"{where}: expected operators of ONNX itself, got those of {got:.80}")
    for version in opsets.values():
        if version not in OPSETS:
            raise InputError(
                f"{where}: expected opset {OPSETS[0]} to {OPSETS[-1]}, got {version}; export again"
            )
    if model.functions or model.training_info:
        raise InputError(f"{where}: has functions of its own or a part for training")
    if model.graph.sparse_initializer:
        raise InputError(f"{where}: has sparse weights, which are not supported")
    if not 0 < len(model.graph.node) <= _MOST_NODES:
        count = len(model.graph.node)
        raise InputError(f"{where}: expected 1 to {_MOST_NODES:,} nodes, got {count:,}")


def _check_node(node: Any, where: str) -> None:
    if node.domain not in ("", "ai.onnx") or node.op_type not in OPERATORS:
        name = f"{node.domain}:{node.op_type}" if node.domain else node.op_type
        raise InputError(f"{where}: operator {name[:80]!r} is not on the allow-list")
    for attribute in node.attribute:
        if attribute.HasField("g") or attribute.graphs or attribute.HasField("sparse_tensor"):
            raise InputError(f"{where}: operator {node.op_type} has a graph inside")
        for tensor in (*([attribute.t] if attribute.HasField("t") else []), *attribute.tensors):
            _check_tensor(tensor, where)


def _check_tensor(tensor: Any, where: str) -> None:
    """Refuse weights that are elsewhere, not as large as they say, or no numbers."""
    name = tensor.name[:80]
    if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data:
        raise InputError(f"{where}: the weights {name!r} are in another file")
    size = _DTYPES.get(tensor.data_type)
    if size is None:
        raise InputError(f"{where}: the weights {name!r} have a type that is not on the allow-list")
    count = _count(list(tensor.dims))
    if count is None or count > _MOST_VALUES:
        raise InputError(f"{where}: the weights {name!r} are too large: {list(tensor.dims)[:8]}")
    if tensor.raw_data and len(tensor.raw_data) != count * size:
        got = len(tensor.raw_data)
        raise InputError(f"{where}: the weights {name!r} have {got:,} bytes, not {count * size:,}")
    try:
        values = numpy_helper.to_array(tensor)
    except (ValueError, TypeError) as error:
        raise InputError(f"{where}: the weights {name!r}: {_line(error)}") from None
    # -inf in a mask is ordinary.
    if values.dtype.kind == "f" and (np.isnan(values).any() or np.isposinf(values).any()):
        raise InputError(f"{where}: the weights {name!r} are not all numbers")


def _check_ports(
    found: Sequence[Any], initial: Sequence[Any], expected: Sequence[Port], what: str, where: str
) -> None:
    """Refuse inputs or outputs other than those that are expected."""
    weights = {tensor.name for tensor in initial}
    ports = {port.name: port for port in found if port.name not in weights}
    names = [tensor.name for tensor in expected]
    if sorted(ports) != sorted(names):
        raise InputError(
            f"{where}: expected the {what}s {', '.join(names)}, got {', '.join(ports):.120}"
        )
    for tensor in expected:
        kind = ports[tensor.name].type.tensor_type
        if kind.elem_type != onnx.TensorProto.FLOAT:
            raise InputError(f"{where}: {what} {tensor.name}: expected float32")
        shape = [_length(dim) for dim in kind.shape.dim]
        wanted = [length if isinstance(length, int) else None for length in tensor.shape]
        if shape != wanted:
            raise InputError(
                f"{where}: {what} {tensor.name}: expected the shape {_shape(wanted)}, "
                f"got {_shape(shape)}"
            )


def _check_sizes(model: Any, where: str) -> None:
    """Refuse a small file that needs much memory."""
    try:
        inferred = onnx.shape_inference.infer_shapes(
            model, check_type=True, strict_mode=True, data_prop=True
        )
    except Exception as error:  # noqa: BLE001  onnx has several for graphs that do not fit
        raise InputError(f"{where}: its shapes do not fit together ({_line(error)})") from None
    values = (*inferred.graph.value_info, *inferred.graph.input, *inferred.graph.output)
    sizes = {value.name: _size(value) for value in values}
    for node in inferred.graph.node:
        for name in node.output:
            size = sizes.get(name)
            if size is None and node.op_type in _GROWING:
                raise InputError(f"{where}: the size of what {node.op_type} makes is not given")
            if size is not None and size > _MOST_VALUES:
                raise InputError(
                    f"{where}: operator {node.op_type} makes {size:,} numbers, "
                    f"over {_MOST_VALUES:,}"
                )


def _size(value: Any) -> int | None:
    """How many numbers a tensor has; None where its rank is unknown."""
    kind = value.type.tensor_type
    if not kind.HasField("shape"):
        return None
    lengths = [_length(dim) for dim in kind.shape.dim]
    # One axis of any length counts as a full batch, others are as long as a cluster has domains.
    free = iter([_ANY_LENGTH])
    return prod(next(free, 1) if length is None else length for length in lengths)


def _count(dims: list[int]) -> int | None:
    return prod(dims) if all(length >= 0 for length in dims) else None


def _length(dim: Any) -> int | None:
    return int(dim.dim_value) if dim.HasField("dim_value") else None


def _shape(lengths: list[int | None]) -> str:
    return "[" + ", ".join("any" if length is None else str(length) for length in lengths) + "]"


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__

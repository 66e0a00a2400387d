"""Policies on disk that answer the same for every app, without any training."""

from pathlib import Path

import msgspec
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from models.policies.artefact import CARD, NETWORK, SOLDIER, Card, identity
from models.policies.contract import APP_COLUMNS, VERSION


def write_soldier(folder: Path, factor: float, operator: str = "Identity") -> Path:
    """A Soldiers' policy that multiplies every need by a factor, after an operator on it."""
    folder.mkdir(parents=True, exist_ok=True)
    constants = {
        "nothing": np.zeros((len(APP_COLUMNS), 1), np.float32),
        "factor": np.array([factor], np.float32),
    }
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["app", "nothing"], ["zero"]),
            helper.make_node("Add", ["zero", "factor"], ["sum"]),
            helper.make_node(operator, ["sum"], ["need"]),
        ],
        "constant",
        [helper.make_tensor_value_info("app", TensorProto.FLOAT, ["rows", len(APP_COLUMNS)])],
        [helper.make_tensor_value_info("need", TensorProto.FLOAT, ["rows", 1])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, folder / NETWORK)
    card = Card(
        model=identity(folder / NETWORK, SOLDIER), contract=VERSION, command="by hand", args={},
        scenarios=[], seeds=[], apps=0, world="", heuristic="", decisions=0, minutes=0.0,
        parity=0.0, curve=[],
    )  # fmt: skip
    (folder / CARD).write_bytes(msgspec.json.encode(card))
    return folder

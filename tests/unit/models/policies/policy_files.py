"""Policies on disk that answer the same for every app, without any training."""

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from models.policies.artefact import SOLDIER
from models.policies.contract import APP_COLUMNS
from tests.planted_models import trained_folder


def write_soldier(folder: Path, factor: float, operator: str = "Identity") -> Path:
    """A Soldiers' policy that multiplies every need by a factor, after an operator on it."""
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
    return trained_folder(folder, SOLDIER, model.SerializeToString())

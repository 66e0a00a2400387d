"""Writes a policy as ONNX, with axes of any length, and what the network itself answers.

The gate compares the export with those answers, wherever it runs: torch is needed here only.
"""

from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime as ort
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from models.forecaster.training.produce import strip
from models.policies.contract import INPUTS, OUTPUTS, SOLDIER_INPUTS, SOLDIER_OUTPUTS
from models.policies.contract import Tensor as Port
from models.registry.load import Samples, write_samples
from models.registry.manifest import SAMPLES

TOLERANCE: Final = 1e-3
_STATES: Final = 100
"""Random states that the export is compared on."""
_FAR: Final = 3.0
"""Largest random input; their ranges end at 5."""
_PORTS: Final = {"commander": (INPUTS, OUTPUTS), "soldier": (SOLDIER_INPUTS, SOLDIER_OUTPUTS)}
_OPSET: Final = 18


def export(agent: str, network: nn.Module, path: Path) -> float:
    """Write the ONNX file, and samples beside it; returns its largest difference."""
    inputs, outputs = _PORTS[agent]
    axes = {axis: torch.export.Dim(axis, min=1, max=4096) for axis in _axes(inputs)}
    shapes = tuple(
        {at: axes[axis] for at, axis in enumerate(port.shape) if isinstance(axis, str)}
        for port in inputs
    )
    torch.onnx.export(
        network.eval(), _tensors(_random(inputs, 3, 7, 2)), path,
        input_names=[port.name for port in inputs],
        output_names=[port.name for port in outputs],
        dynamic_shapes=shapes, opset_version=_OPSET, dynamo=True, external_data=False,
        verbose=False,
    )  # fmt: skip
    # Without source paths, so that the same weights give the same file.
    strip(path)
    path.with_name(SAMPLES).write_bytes(write_samples(_answered(network, inputs, outputs)))
    worst = _difference(network, inputs, outputs, path)
    if not worst <= TOLERANCE:
        raise ValueError(f"{path}: differs from the network by {worst:.1e}, over {TOLERANCE}")
    return worst


def _axes(inputs: tuple[Port, ...]) -> list[str]:
    return sorted({axis for port in inputs for axis in port.shape if isinstance(axis, str)})


def _random(
    inputs: tuple[Port, ...], seed: int, domains: int, pools: int, rows: int | None = None
) -> dict[str, NDArray[np.float32]]:
    """States with numbers of everything."""
    random = np.random.default_rng(seed)
    # More than one row: torch.export would treat a single one as a constant.
    sizes = {"rows": rows or 2 + seed % 3, "domains": domains, "pools": pools}
    found = {}
    for port in inputs:
        shape = [sizes[one] if isinstance(one, str) else one for one in port.shape]
        values = random.uniform(max(port.low, -_FAR), min(port.high, _FAR), shape)
        if port.name == "cores":
            # Of a domain they sum to 1: otherwise its limit would leave no room for anything.
            values = values / values.sum(axis=-1, keepdims=True)
        found[port.name] = values.astype(np.float32)
    return found


def _answered(network: nn.Module, inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> Samples:
    """Random states with the network's answers."""
    states = _random(inputs, 0, 5, 3, _STATES)
    answers = _answers(network, _tensors(states))
    return Samples(states, {port.name: one for port, one in zip(outputs, answers, strict=True)})


def _tensors(states: dict[str, NDArray[np.float32]]) -> tuple[Tensor, ...]:
    return tuple(map(torch.from_numpy, states.values()))


def _answers(network: nn.Module, given: tuple[Tensor, ...]) -> list[NDArray[np.float32]]:
    with torch.no_grad():
        found: Any = network(*given)
    return [one.numpy() for one in (found if isinstance(found, tuple) else (found,))]


def _difference(
    network: nn.Module, inputs: tuple[Port, ...], outputs: tuple[Port, ...], path: Path
) -> float:
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    worst = 0.0
    for state in range(_STATES):
        given = _random(inputs, state, 1 + state % 12, 1 + state % 5)
        found = session.run([port.name for port in outputs], given)
        for mine, theirs in zip(found, _answers(network, _tensors(given)), strict=True):
            worst = max(worst, float(np.abs(mine - theirs).max()))
    return worst

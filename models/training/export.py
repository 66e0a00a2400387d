"""Writes a policy as ONNX, with axes of any length, and checks that it answers alike."""

from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime as ort
import torch
from torch import Tensor, nn

from models.forecaster.training.produce import strip
from models.policies.contract import INPUTS, OUTPUTS, SOLDIER_INPUTS, SOLDIER_OUTPUTS
from models.policies.contract import Tensor as Port

TOLERANCE: Final = 1e-3
_STATES: Final = 100
"""Random states that the export is compared on."""
_PORTS: Final = {"commander": (INPUTS, OUTPUTS), "soldier": (SOLDIER_INPUTS, SOLDIER_OUTPUTS)}
_OPSET: Final = 18


def export(agent: str, network: nn.Module, path: Path) -> float:
    """Write the ONNX file; returns its largest difference from the network."""
    inputs, outputs = _PORTS[agent]
    axes = {axis: torch.export.Dim(axis, min=1, max=4096) for axis in _axes(inputs)}
    shapes = tuple(
        {at: axes[axis] for at, axis in enumerate(port.shape) if isinstance(axis, str)}
        for port in inputs
    )
    torch.onnx.export(
        network.eval(), _random(inputs, 3, 7, 2), path,
        input_names=[port.name for port in inputs],
        output_names=[port.name for port in outputs],
        dynamic_shapes=shapes, opset_version=_OPSET, dynamo=True, external_data=False,
        verbose=False,
    )  # fmt: skip
    # Without source paths, so that the same weights give the same file.
    strip(path)
    worst = _difference(network, inputs, outputs, path)
    if not worst <= TOLERANCE:
        raise ValueError(f"{path}: differs from the network by {worst:.1e}, over {TOLERANCE}")
    return worst


def _axes(inputs: tuple[Port, ...]) -> list[str]:
    return sorted({axis for port in inputs for axis in port.shape if isinstance(axis, str)})


def _random(inputs: tuple[Port, ...], seed: int, domains: int, pools: int) -> tuple[Tensor, ...]:
    """States with other numbers of everything."""
    generator = torch.Generator().manual_seed(seed)
    # More than one row: torch.export would treat a single one as a constant.
    sizes = {"rows": 2 + seed % 3, "domains": domains, "pools": pools}
    return tuple(
        torch.randn([sizes[one] if isinstance(one, str) else one for one in port.shape],
                    generator=generator)
        for port in inputs
    )  # fmt: skip


def _difference(
    network: nn.Module, inputs: tuple[Port, ...], outputs: tuple[Port, ...], path: Path
) -> float:
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    worst = 0.0
    for state in range(_STATES):
        given = _random(inputs, state, 1 + state % 12, 1 + state % 5)
        feed = {port.name: one.numpy() for port, one in zip(inputs, given, strict=True)}
        found = session.run([port.name for port in outputs], feed)
        with torch.no_grad():
            wanted: Any = network(*given)
        expected = wanted if isinstance(wanted, tuple) else (wanted,)
        for mine, theirs in zip(found, expected, strict=True):
            worst = max(worst, float(np.abs(mine - theirs.numpy()).max()))
    return worst

"""From a trained network to an ONNX file, proven to say the same."""

from pathlib import Path
from typing import Final

import numpy as np
import onnxruntime as ort
import torch
from torch import Tensor, nn

from models.forecaster.learned.inputs import AHEAD_MIN, FUTURE, PAST, PAST_WINDOWS, STATIC

INPUTS: Final = ("past", "future", "static")
OUTPUTS: Final = ("quantiles", "hidden", "attention")
TOLERANCE: Final = 1e-4
"""Relative, as ratios of values: the outputs are logarithms."""


class _Served(nn.Module):
    """The outputs that a service reads."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, past: Tensor, future: Tensor, static: Tensor) -> tuple[Tensor, ...]:
        said = self.network(past, future, static)
        return said.quantiles, said.hidden, said.attention


def export(network: nn.Module, path: Path) -> float:
    """Write the file; returns the largest relative difference on random inputs of several sizes."""
    served = _Served(network).eval()
    rows = torch.export.Dim("rows", min=1)
    torch.onnx.export(
        served,
        _random(3),
        path,
        input_names=list(INPUTS),
        output_names=list(OUTPUTS),
        dynamic_shapes=({0: rows}, {0: rows}, {0: rows}),
        dynamo=True,
        external_data=False,
        verbose=False,
    )
    worst = max(_difference(served, path, rows) for rows in (1, 5, 64))
    if worst > TOLERANCE:
        raise ValueError(f"{path}: differs from the network by {worst:.1e}, over {TOLERANCE}")
    return worst


def _difference(served: nn.Module, path: Path, rows: int) -> float:
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    given = _random(rows)
    feed = {name: value.numpy() for name, value in zip(INPUTS, given, strict=True)}
    quantiles, hidden, _ = session.run(list(OUTPUTS), feed)
    with torch.no_grad():
        wanted = [value.numpy() for value in served(*given)[:2]]
    ratios = np.abs(np.expm1(quantiles - wanted[0])).max()
    return float(max(ratios, np.abs(hidden - wanted[1]).max()))


def _random(rows: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(rows)
    shapes = (
        (rows, len(PAST_WINDOWS), len(PAST)),
        (rows, len(AHEAD_MIN), len(FUTURE)),
        (rows, len(STATIC)),
    )
    past, future, static = (torch.randn(shape, generator=generator) for shape in shapes)
    return past, future, static

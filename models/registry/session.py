"""An open network: one thread, buffers that are allocated once, any number of rows.

Load it lazily: importing onnxruntime takes a while, and the heuristic needs none of it.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from models.inputs.errors import InputError
from models.registry.load import Artefact
from models.registry.manifest import Tensor
from models.registry.parity import PARITY, difference

F32 = NDArray[np.float32]
_ROUNDING: Final = 1e-5
"""A bound such as 2/3 is no float32: a network that is clipped to it may miss it by this."""


class Fault(Exception):  # noqa: N818  of a model, not of the service
    """An answer that nobody may use; the message says why."""


class Session:
    """A network at work. It belongs to one thread."""

    def __init__(self, artefact: Artefact) -> None:
        options = ort.SessionOptions()
        # Services compute in one thread each: more would take turns with other services.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            self._session = ort.InferenceSession(
                artefact.network, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # noqa: BLE001  onnxruntime's errors have no common class
            raise InputError(f"{artefact.name}: cannot be opened ({_line(error)})") from None
        self.artefact = artefact
        self._outputs = {tensor.name: tensor for tensor in artefact.manifest.outputs}
        self._bound: _Bound | None = None

    def run(self, inputs: Mapping[str, F32]) -> dict[str, F32]:
        """Answer for all rows; raises Fault unless every output is a number in its range.

        The arrays are reused by the next call.
        """
        shapes = {name: values.shape for name, values in inputs.items()}
        if self._bound is None or self._bound.shapes != shapes:
            self._bound = self._bind(inputs)
        bound = self._bound
        for name, values in inputs.items():
            np.copyto(bound.inputs[name], values)
        try:
            self._session.run_with_iobinding(bound.binding)
        except Exception as error:  # noqa: BLE001  as above
            raise Fault(f"failed: {_line(error)}") from None
        outputs = dict(zip(self._outputs, bound.binding.copy_outputs_to_cpu(), strict=True))
        for name, tensor in self._outputs.items():
            check_output(outputs[name], tensor)
        return outputs

    def _bind(self, inputs: Mapping[str, F32]) -> "_Bound":
        """Buffers for these shapes: they seldom change."""
        binding = self._session.io_binding()
        buffers = {name: np.ascontiguousarray(values).copy() for name, values in inputs.items()}
        for name, buffer in buffers.items():
            binding.bind_input(name, "cpu", 0, np.float32, buffer.shape, buffer.ctypes.data)
        for name in self._outputs:
            # onnxruntime allocates the outputs: their shapes need not follow from the inputs'.
            binding.bind_output(name, "cpu")
        return _Bound({n: b.shape for n, b in buffers.items()}, buffers, binding)


class _Bound(NamedTuple):
    shapes: dict[str, tuple[int, ...]]
    inputs: dict[str, F32]
    binding: ort.IOBinding


def check_output(values: F32, tensor: Tensor) -> None:
    """Raise Fault unless all values are numbers in the output's range."""
    if not np.isfinite(values).all():
        raise Fault(f"{tensor.name}: no number")
    if tensor.low is not None and values.size and float(values.min()) < tensor.low - _ROUNDING:
        raise Fault(f"{tensor.name}: {float(values.min()):g} is below {tensor.low:g}")
    if tensor.high is not None and values.size and float(values.max()) > tensor.high + _ROUNDING:
        raise Fault(f"{tensor.name}: {float(values.max()):g} is above {tensor.high:g}")


def open_session(artefact: Artefact) -> Session:
    """Open a network and compare it with its samples; raises InputError if they differ."""
    session = Session(artefact)
    samples = artefact.samples
    if samples is None:
        return session
    try:
        found = session.run(samples.inputs)
    except Fault as fault:
        raise InputError(f"{artefact.name}: its own samples: {fault}") from None
    worst = difference(found, samples.outputs)
    if not worst <= PARITY:
        raise InputError(
            f"{artefact.name}: differs from its samples by {worst:.1e}, over {PARITY:g}: it was "
            "exported by another release, or is not the model that it says"
        )
    return session


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:160] or type(error).__name__

"""Trained policies on disk: each is a folder with the network (ONNX) and its card.

The only module here that imports onnxruntime.
"""

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import onnxruntime as ort

from models.cluster.arrays import F32
from models.inputs.errors import InputError
from models.policies.advisers import in_blocks
from models.policies.contract import INPUTS, OUTPUTS, SOLDIER_INPUTS, SOLDIER_OUTPUTS, VERSION
from models.policies.inputs import CommanderInputs
from models.policies.outputs import Answer
from models.policies.soldier_inputs import SoldierInputs

NETWORK: Final = "network.onnx"
CARD: Final = "card.json"
COMMANDER: Final = "commander"
SOLDIER: Final = "soldier"
_PORTS: Final = {COMMANDER: (INPUTS, OUTPUTS), SOLDIER: (SOLDIER_INPUTS, SOLDIER_OUTPUTS)}
_PER_CLUSTER: Final = ("calls", "uses")
"""Inputs that are the same in every environment."""


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """What a user of the policy should know before trusting it."""

    model: str
    """Name and the first digits of the network's SHA-256."""
    contract: int
    command: str
    """The command that reproduces it."""
    args: dict[str, Any]
    scenarios: list[str]
    """Trained in."""
    seeds: list[int]
    apps: int
    world: str
    """Digest of the simulated world that it was trained in, whatever the scenario."""
    heuristic: str
    """Hash of the code that the policy is a residual on; another one may need other residuals."""
    decisions: int
    """Trained on."""
    minutes: float
    """Duration of the training."""
    parity: float
    """Largest difference between the network and its export."""
    curve: list[dict[str, float | None]]
    notes: list[str] = []


class CommanderSession:
    """An open Commander's policy; answers environment by environment.

    Not all at once: a seed's result must not depend on which other seeds run beside it, and
    products of matrices of another size are rounded differently.
    """

    def __init__(self, path: Path) -> None:
        self._session = _open(path, COMMANDER)
        self._outputs = [tensor.name for tensor in OUTPUTS]

    def __call__(self, inputs: CommanderInputs, /) -> Answer:
        """The outputs by name, each with the environment first."""
        rows = [self._row(inputs, e) for e in range(inputs.domain.shape[0])]
        return {
            name: np.concatenate(values)
            for name, values in zip(self._outputs, zip(*rows, strict=True), strict=True)
        }

    def _row(self, inputs: CommanderInputs, e: int) -> list[Any]:
        feed = {
            name: values if name in _PER_CLUSTER else values[e : e + 1]
            for name, values in inputs._asdict().items()
        }
        answer: list[Any] = self._session.run(self._outputs, feed)
        return answer


class SoldierSession:
    """An open Soldiers' policy; answers for blocks of domains."""

    def __init__(self, path: Path) -> None:
        self._session = _open(path, SOLDIER)
        self._names = [tensor.name for tensor in SOLDIER_OUTPUTS]

    def __call__(self, inputs: SoldierInputs, /) -> Answer:
        """The outputs by name, [E, D, MEMBERS] each."""
        return in_blocks(self._block, inputs)

    def _block(self, rows: Mapping[str, F32]) -> Answer:
        found = self._session.run(self._names, dict(rows))
        return dict(zip(self._names, found, strict=True))


def _open(path: Path, kind: str) -> ort.InferenceSession:
    if not path.exists():
        raise InputError(f"{path}: no such policy; train one with `hirl train {kind}`")
    # Imported here: a running service opens policies of the registry, whose graphs are checked.
    from models.registry.graph import check_graph  # noqa: PLC0415

    network = path.read_bytes()
    # Before onnxruntime sees it: creating a session already computes constants.
    check_graph(network, *_PORTS[kind], str(path))
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return ort.InferenceSession(network, options, providers=["CPUExecutionProvider"])


def load_card(folder: Path, kind: str) -> Card:
    """The card of a policy; raises InputError if it does not fit this version."""
    path = folder / CARD
    try:
        card = msgspec.json.decode(path.read_bytes(), type=Card)
    except FileNotFoundError:
        raise InputError(
            f"{folder}: holds no {CARD}; train a policy with `hirl train {kind}`"
        ) from None
    except msgspec.MsgspecError as error:
        raise InputError(f"{path}: {error}; train the policy again") from error
    if card.contract != VERSION:
        raise InputError(
            f"{path}: expected contract {VERSION}, got {card.contract}; train the policy again"
        )
    if card.model != identity(folder / NETWORK, kind):
        raise InputError(f"{path}: describes {card.model}, the network beside it is another one")
    return card


@cache
def load_commander(folder: Path) -> CommanderSession:
    """Open a Commander's policy, once per process."""
    load_card(folder, COMMANDER)
    return CommanderSession(folder / NETWORK)


@cache
def load_soldier(folder: Path) -> SoldierSession:
    """Open the Soldiers' policy, once per process."""
    load_card(folder, SOLDIER)
    return SoldierSession(folder / NETWORK)


def identity(network: Path, kind: str) -> str:
    """The name that decisions carry: the kind and the start of the file's SHA-256."""
    if not network.exists():
        raise InputError(f"{network}: no such file; train a policy with `hirl train {kind}`")
    return f"{kind}/{hashlib.sha256(network.read_bytes()).hexdigest()[:8]}"

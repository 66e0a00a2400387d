"""The outputs that the network of each kind may have, and how far their ranges may reach.

An artefact with other outputs is refused before its network is parsed. What the inputs mean is
checked by `features_sha256`, where a service opens the network.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from models.inputs.errors import InputError
from models.registry.manifest import Kind, Manifest

_FORECASTER_OUTPUTS: Final = ("quantiles", "hidden", "attention")


class Bound(NamedTuple):
    """An output, and how far its range may reach."""

    rank: int
    """Number of axes, the rows included."""
    low: float
    high: float
    unit: str


def _factor(rank: int, span: float, of: str) -> Bound:
    return Bound(rank, 1.0 / span, span, f"factor on {of}")


POLICY_OUTPUTS: Final[Mapping[Kind, Mapping[str, Bound]]] = {
    "commander-policy": {
        "headroom": _factor(2, 1.25, "1 + headroom"),
        "urgency": _factor(2, 4.0, "the urgency"),
        "comfort": _factor(2, 1.5, "the comfort claim"),
        "pods": Bound(3, -1.0, 1.0, "weights of the growth that pods prepare for"),
        "nodes": Bound(3, -1.0, 1.0, "weights of the growth that nodes are requested for"),
        "spare": _factor(2, 3.0, "spare nodes"),
    },
    "soldier-policy": {
        "need": _factor(2, 1.5, "the pods that an app needs"),
        "cpu": Bound(2, 1.0, 2.0, "factor on the first CPU request of an app"),
    },
}
"""What a policy may move: the fields of `models.control.residual.Residual`. It has one output or
more; what it lacks changes nothing."""


def check_contract(manifest: Manifest, where: str) -> None:
    """Refuse a manifest whose outputs are not those of its kind."""
    if not manifest.inputs or not manifest.outputs:
        raise InputError(f"{where}: the manifest names no inputs or no outputs")
    names = [tensor.name for tensor in manifest.outputs]
    if manifest.kind == "forecaster":
        # Their shapes follow from the features, which `features_sha256` stands for.
        if names != list(_FORECASTER_OUTPUTS):
            raise _unexpected(manifest, _FORECASTER_OUTPUTS, where)
        return
    known = POLICY_OUTPUTS[manifest.kind]
    if len(set(names)) != len(names) or not known.keys() >= set(names):
        raise _unexpected(manifest, known, where)
    for found in manifest.outputs:
        one = known[found.name]
        inside = (
            found.low is not None
            and found.high is not None
            and one.low <= found.low <= found.high <= one.high
        )
        if len(found.shape) != one.rank or not inside:
            raise InputError(
                f"{where}: output {found.name}: expected {one.rank} axes and values within "
                f"{one.low:g} to {one.high:g}, got {len(found.shape)} and {found.low} to "
                f"{found.high}"
            )


def _unexpected(manifest: Manifest, known: Iterable[str], where: str) -> InputError:
    got = ", ".join(tensor.name for tensor in manifest.outputs)
    return InputError(
        f"{where}: expected the outputs {', '.join(known)} of a {manifest.kind}, got {got:.80}"
    )

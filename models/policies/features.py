"""What the networks of policies see, feature by feature, to compare it with training."""

from collections.abc import Mapping
from typing import Final

from models.cluster.arrays import F32
from models.inputs.errors import InputError
from models.policies.contract import COLUMNS
from models.policies.inputs import CommanderInputs
from models.registry.drift import FEATURES, Reference
from models.registry.load import Artefact
from models.registry.manifest import Kind

_COMMANDER: Final = ("domain", "pool", "cluster")
"""Inputs that change; the others are what the cluster file declares."""
_SOLDIER: Final = ("app",)


def commander_features(inputs: CommanderInputs) -> dict[str, F32]:
    """Values of each feature, such as `domain.rps`."""
    arrays = inputs._asdict()
    return _by_name({name: arrays[name] for name in _COMMANDER})


def soldier_features(inputs: F32) -> dict[str, F32]:
    """Values of each feature, such as `app.rps`; `inputs` [..., APP_COLUMNS]."""
    return _by_name({"app": inputs})


def reference_of(artefact: Artefact) -> Reference | None:
    """What to compare features with; None if training left nothing."""
    if artefact.features is None:
        return None
    expected = {*feature_names(artefact.manifest.kind)}
    if other := sorted(expected ^ artefact.features.keys()):
        raise InputError(
            f"{artefact.name}: {FEATURES}: expected the features of the contract, {other[0]:.40} "
            "is missing or unknown; train it again"
        )
    return Reference(artefact.version, artefact.features)


def feature_names(kind: Kind) -> tuple[str, ...]:
    """Names of all features of a policy."""
    ports = _COMMANDER if kind == "commander-policy" else _SOLDIER
    return tuple(f"{port}.{name}" for port in ports for name in COLUMNS[port])


def _by_name(arrays: Mapping[str, F32]) -> dict[str, F32]:
    return {
        f"{port}.{name}": values[..., column]
        for port, values in arrays.items()
        for column, name in enumerate(COLUMNS[port])
    }

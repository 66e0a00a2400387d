"""What the networks of policies see, feature by feature, to compare it with training."""

from collections.abc import Mapping
from typing import Final

from models.cluster.arrays import F32
from models.policies.contract import COMMANDER_COLUMNS, MEMBER_COLUMNS, SOLDIER_COLUMNS
from models.policies.inputs import CommanderInputs
from models.policies.soldier_inputs import SoldierInputs
from models.registry.drift import Reference, reference_for
from models.registry.load import Artefact
from models.registry.manifest import Kind

_COLUMNS: Final[Mapping[Kind, Mapping[str, tuple[str, ...]]]] = {
    "commander-policy": COMMANDER_COLUMNS,
    "soldier-policy": SOLDIER_COLUMNS,
}
"""Of the inputs that change; the others are what the cluster file declares, or limits."""
_APPS: Final = MEMBER_COLUMNS.index("apps")


def commander_features(inputs: CommanderInputs) -> dict[str, F32]:
    """Values of each feature, such as `domain.rps`."""
    arrays = inputs._asdict()
    return _by_name({name: arrays[name] for name in COMMANDER_COLUMNS}, COMMANDER_COLUMNS)


def soldier_features(inputs: SoldierInputs, domain: int) -> dict[str, F32]:
    """Values of each feature of a domain, such as `member.rps`, of the members that have apps."""
    members = inputs.member[..., domain, :, :]
    arrays = {
        "domain": inputs.domain[..., domain, :],
        "member": members[members[..., _APPS] > 0.0],
    }
    return _by_name(arrays, SOLDIER_COLUMNS)


def reference_of(artefact: Artefact) -> Reference | None:
    """What to compare features with; None if training left nothing."""
    names = feature_names(artefact.manifest.kind)
    return reference_for(artefact.name, artefact.version, artefact.features, names)


def feature_names(kind: Kind) -> tuple[str, ...]:
    """Names of all features of a policy."""
    return tuple(f"{port}.{name}" for port, names in _COLUMNS[kind].items() for name in names)


def _by_name(arrays: Mapping[str, F32], columns: Mapping[str, tuple[str, ...]]) -> dict[str, F32]:
    return {
        f"{port}.{name}": values[..., column]
        for port, values in arrays.items()
        for column, name in enumerate(columns[port])
    }

"""What the network sees, feature by feature, to compare it with training."""

from typing import Final

import numpy as np

from models.cluster.arrays import F32
from models.forecaster.learned.inputs import FUTURE, PAST, STATIC, NetworkInputs
from models.registry.drift import Reference, reference_for
from models.registry.load import Artefact

_COLUMNS: Final = {"past": PAST, "future": FUTURE, "static": STATIC}
FEATURE_NAMES: Final = tuple(f"{port}.{name}" for port, names in _COLUMNS.items() for name in names)


def network_features(inputs: NetworkInputs) -> dict[str, F32]:
    """Values of each feature, such as `past.level`, of the rows that can be forecast."""
    rows = ~np.isnan(inputs.scale)
    arrays = {name: getattr(inputs, name)[rows] for name in _COLUMNS}
    return {
        f"{port}.{name}": arrays[port][..., column]
        for port, names in _COLUMNS.items()
        for column, name in enumerate(names)
    }


def reference_of(found: Artefact) -> Reference | None:
    """What to compare the features of a forecaster with; None if training left nothing."""
    return reference_for(found.name, found.version, found.features, FEATURE_NAMES)

"""What a network is trained on, for the artefact: services compare their own features with it.

A service judges hours of all its domains. So a run of training is an hour of a few series, drawn
from the parts of the corpus as often as training draws from them.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from models.cluster.arrays import I64
from models.forecaster.learned.encode import encode
from models.forecaster.learned.features import network_features
from models.forecaster.learned.inputs import joined
from models.forecaster.series import Series
from models.forecaster.training.corpus import Part
from models.forecaster.training.pool import origins
from models.registry.drift import Distribution, Values, summarised

RUNS: Final = 400
SERIES: Final = 5
"""Of a run: as many as the example cluster has domains."""
_HOUR_MIN: Final = 60


def distributions(parts: Sequence[Part], seed: int, runs: int = RUNS) -> dict[str, Distribution]:
    """The distribution of every feature over hours of the corpus; empty if it has no hour."""
    rng = np.random.default_rng(seed)
    usable = [(part, found) for part in parts if (found := _usable(part))]
    if not usable:
        return {}
    shares = np.array([part.share for part, _ in usable])
    chosen = rng.choice(len(usable), runs, p=shares / shares.sum())
    return summarised([_run(usable[at][1], rng) for at in chosen.tolist()])


def _usable(part: Part) -> list[tuple[Series, I64]]:
    """Series with an hour to forecast from, and where they can be."""
    found = [(one, origins(one, int(one.rps.size * part.learned))) for one in part.series]
    return [(series, at) for series, at in found if at.size >= _HOUR_MIN]


def _run(series: Sequence[tuple[Series, I64]], rng: np.random.Generator) -> Values:
    chosen = [series[at] for at in rng.integers(len(series), size=SERIES).tolist()]
    hours = []
    for one, at in chosen:
        first = int(rng.integers(at.size - _HOUR_MIN + 1))
        hours.append(encode(one, at[first : first + _HOUR_MIN]))
    return network_features(joined(hours))

"""A model folder as it is served: the network, and the corrector where one is shipped with it."""

from functools import cache
from pathlib import Path

from models.forecaster.learned import corrector
from models.forecaster.learned.answer import Model
from models.forecaster.learned.artefact import CORRECTOR, SHIPPED, load_artefact


@cache
def model_of(folder: Path = SHIPPED) -> Model:
    """Open a model once per process; InputError says what to do where there is none."""
    artefact = load_artefact(folder)
    file = folder / CORRECTOR
    return Model(
        name=artefact.card.model,
        trained_until=artefact.card.trained_until,
        network=artefact.session,
        corrector=corrector.load(file) if file.exists() else None,
    )

"""The cluster file and the tuned parameters, as every deciding service needs them."""

from pathlib import Path
from typing import Final

from models.cluster.description import Cluster, load_cluster
from models.control.parameters import Parameters
from models.control.tuned import tuned
from models.inputs.errors import InputError
from services._kit.settings import BadSettings

_CONTROLLER: Final = "heuristic"


def cluster_of(file: str) -> Cluster:
    """Domains, pools and priorities; the example cluster when no file is named."""
    try:
        return load_cluster(Path(file) if file else None)
    except InputError as error:
        raise BadSettings(f"cluster: {error}") from None


def parameters_of() -> Parameters:
    """Of the heuristic, as calibration found them."""
    return Parameters(**tuned(_CONTROLLER))

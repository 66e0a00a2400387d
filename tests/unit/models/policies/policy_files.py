"""Policies on disk that answer the same for every app, without any training."""

from pathlib import Path

from models.policies.artefact import SOLDIER
from tests.planted_models import reparsed, soldier_network, trained_folder


def write_soldier(folder: Path, factor: float, operator: str = "Clip") -> Path:
    """A Soldiers' policy that multiplies every need by a factor; `operator` gives the answer."""
    model = reparsed(soldier_network(factor))
    model.graph.node[-1].op_type = operator
    return trained_folder(folder, SOLDIER, model.SerializeToString())

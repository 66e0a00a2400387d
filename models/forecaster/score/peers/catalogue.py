"""The models that can be compared, and which of them are installed."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from models.forecaster.learned.artefact import NAME, SHIPPED, load_artefact
from models.forecaster.score.evaluation import Peer
from models.forecaster.score.peers.boosted import Boosted
from models.forecaster.score.peers.floors import FLOORS
from models.forecaster.score.peers.learned import Learned
from models.forecaster.score.peers.linear import Linear
from models.forecaster.score.peers.statistical import STATISTICAL
from models.inputs.errors import InputError

MOST_SERIES: Final = 20
"""Largest file for the statistical peers by default, because they take seconds per series."""
SLOW: Final = tuple(peer.name for peer in STATISTICAL)
_LIBRARIES: Final = {Boosted().name: "lightgbm", **dict.fromkeys(SLOW, "statsforecast")}
_PEERS: Final[tuple[Peer, ...]] = (*FLOORS, Linear(), Boosted(), *STATISTICAL)
NAMES: Final = (NAME, *(peer.name for peer in _PEERS))


class Entrants(NamedTuple):
    """The models of a comparison, and a note for each that is left out."""

    peers: tuple[Peer, ...]
    notes: tuple[str, ...]


def all_installed(series: int, folder: Path = SHIPPED) -> Entrants:
    """All installed models that are fast enough for this number of series."""
    learned, notes = _learned(folder)
    wanted: list[Peer] = []
    for peer in _PEERS:
        library = _LIBRARIES.get(peer.name)
        if library is not None and find_spec(library) is None:
            notes.append(f"{peer.name}: not installed, pip install 'hirl-scale[peers]'")
        elif peer.name in SLOW and series > MOST_SERIES:
            notes.append(f"{peer.name}: left out of {series} series unless it is named")
        else:
            wanted.append(peer)
    return Entrants((*learned, *wanted), tuple(notes))


def named(names: Sequence[str], folder: Path = SHIPPED) -> Entrants:
    """The named models and all simple rules, which the others are compared with."""
    for name in names:
        if name not in NAMES:
            raise InputError(f"model: no model {name!r}, choose from {', '.join(NAMES)}")
        library = _LIBRARIES.get(name)
        if library is not None and find_spec(library) is None:
            raise InputError(f"model: {name} needs {library}: pip install 'hirl-scale[peers]'")
    floors = {floor.name for floor in FLOORS}
    learned, notes = _learned(folder) if NAME in names else ([], [])
    chosen = (peer for peer in _PEERS if peer.name in names or peer.name in floors)
    return Entrants((*learned, *chosen), tuple(notes))


def _learned(folder: Path) -> tuple[list[Peer], list[str]]:
    """The model of a folder. The shipped one may be missing; a named folder must have one."""
    try:
        return [Learned(load_artefact(folder).session)], []
    except InputError as error:
        # A user who names a folder wants that model; without the shipped one the others still run.
        if folder != SHIPPED:
            raise
        return [], [f"{NAME}: absent, {error}"]

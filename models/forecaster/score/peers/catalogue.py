"""Which models can be compared, and which of them are here."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from models.forecaster.learned.artefact import NAME, SHIPPED, load_artefact
from models.forecaster.score.peers.boosted import Boosted
from models.forecaster.score.peers.floors import FLOORS
from models.forecaster.score.peers.learned import Learned
from models.forecaster.score.peers.linear import Linear
from models.forecaster.score.peers.port import Peer
from models.forecaster.score.peers.statistical import STATISTICAL
from models.inputs.errors import InputError

MOST_SERIES: Final = 20
"""Statistical peers take seconds per series: in larger files they run only where named."""
SLOW: Final = tuple(peer.name for peer in STATISTICAL)
_LIBRARIES: Final = {Boosted().name: "lightgbm", **dict.fromkeys(SLOW, "statsforecast")}
_PEERS: Final[tuple[Peer, ...]] = (*FLOORS, Linear(), Boosted(), *STATISTICAL)
NAMES: Final = (NAME, *(peer.name for peer in _PEERS))


class Entrants(NamedTuple):
    """The models of a comparison, and a line for each that is not among them."""

    peers: tuple[Peer, ...]
    notes: tuple[str, ...]


def all_installed(series: int, folder: Path = SHIPPED) -> Entrants:
    """What is here and can be afforded for so many series."""
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
    """Some models, and all simple rules, which the others are compared with."""
    for name in names:
        if name not in NAMES:
            raise InputError(f"model: no model {name!r}, choose of {', '.join(NAMES)}")
        library = _LIBRARIES.get(name)
        if library is not None and find_spec(library) is None:
            raise InputError(f"model: {name} needs {library}: pip install 'hirl-scale[peers]'")
    floors = {floor.name for floor in FLOORS}
    learned, notes = _learned(folder) if NAME in names else ([], [])
    chosen = (peer for peer in _PEERS if peer.name in names or peer.name in floors)
    return Entrants((*learned, *chosen), tuple(notes))


def _learned(folder: Path) -> tuple[list[Peer], list[str]]:
    """The model of a folder; that none is shipped is no error, but a named one must be there."""
    try:
        return [Learned(load_artefact(folder).session)], []
    except InputError as error:
        if folder != SHIPPED:
            raise
        return [], [f"{NAME}: absent, {error}"]

"""Policies as entrants: the tuned heuristic with trained advisers.

`policy:calendar` has every policy that ships, `policy:calendar/commander` and `/soldier` only one.
`policy:calendar/commander=DIR` takes it from a folder, `commander=DIR+soldier=DIR` both.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from models.cluster.inventory import Inventory
from models.control.hierarchy import Heuristic
from models.control.parameters import Parts
from models.control.residual import Advisers
from models.control.tuned import tuned_parameters
from models.inputs.errors import InputError
from models.policies.advisers import CommanderPolicy, SoldierPolicy
from models.sim.world import World

POLICY: Final = "policy"
COMMANDER: Final = "commander"
SOLDIER: Final = "soldier"
KINDS: Final = (COMMANDER, SOLDIER)
_FOLDER: Final = Path(__file__).parent.parent / "policies" / "shipped"


def shipped() -> dict[str, Path]:
    """Folders of the policies that ship, by kind; a kind without one is the heuristic."""
    return {kind: _FOLDER / kind for kind in KINDS if (_FOLDER / kind).exists()}


def policy_of(parts: str) -> Callable[[World], Heuristic]:
    """The heuristic with what ships, with one kind of it, or with what is in folders."""
    # Resolved here, before a benchmark starts, not in its workers.
    return partial(with_policies, folders_of(parts))


def folders_of(parts: str) -> dict[str, Path]:
    """Folder of each policy by kind; `parts` is what follows the slash of an entrant's name."""
    ships = shipped()
    asked = [part.partition("=") for part in parts.split("+")] if parts else []
    for kind, _, _ in asked:
        if kind not in KINDS:
            known = ", ".join(KINDS)
            raise InputError(f"controller: {POLICY}: expected one of {known}, got {kind!r}")
    chosen = {kind: Path(folder) if folder else ships.get(kind) for kind, _, folder in asked}
    found = {kind: folder for kind, folder in (chosen or ships).items() if folder is not None}
    if not found:
        raise InputError(
            f"controller: {POLICY}: none ships, the heuristic decides alone; train one with "
            f"`hirl train commander` and name its folder: {POLICY}:calendar/commander=DIR"
        )
    return found


def with_policies(folders: Mapping[str, Path], world: World) -> Heuristic:
    """The tuned heuristic with the policies in these folders, by kind."""
    advisers = advisers_of(folders, world.inventory)
    return Heuristic(world.inventory, world.layout.pools, tuned_parameters(), Parts(), advisers)


def advisers_of(folders: Mapping[str, Path], inventory: Inventory) -> Advisers:
    """The policies in these folders, by kind."""
    if not folders:
        return Advisers()
    try:
        # Imported here because it loads onnxruntime, which other entrants do not need.
        from models.policies.artefact import load_commander, load_soldier  # noqa: PLC0415
    except ImportError as error:
        raise InputError(f"policy: {error}; install the extra `serve`") from error
    commander, soldier = folders.get(COMMANDER), folders.get(SOLDIER)
    return Advisers(
        None if commander is None else CommanderPolicy(inventory, load_commander(commander)),
        None if soldier is None else SoldierPolicy(inventory, load_soldier(soldier)),
    )

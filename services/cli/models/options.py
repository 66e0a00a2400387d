"""Options of the commands about models, and how an artefact is named."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from models.inputs.errors import InputError
from models.registry.keys import Trust, trusted_keys
from models.registry.load import Artefact, verified
from models.registry.store import Store, fetch, open_store, read_folder

_LEAST_DIGITS: Final = 6

ArtefactArgument = Annotated[
    str,
    typer.Argument(
        metavar="ARTEFACT", help="A folder, or the first digits of a version in the store."
    ),
]
StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store", metavar="URL", envvar="HIRL_MODEL_STORE", help="Folder or URL of the artefacts."
    ),
]
KeysOption = Annotated[
    Path | None,
    typer.Option(
        "--keys", metavar="PATH", envvar="HIRL_MODEL_KEYS",
        help="A public key, or a folder with *.pub, of those who may sign.",
    ),
]  # fmt: skip


class Place(NamedTuple):
    """Where artefacts are, and who may have signed them."""

    store: str | None
    keys: Path | None

    @property
    def trust(self) -> Trust:
        """Signatures count if keys are named; a person may open anything else."""
        return Trust(unsigned=True) if self.keys is None else Trust(trusted_keys(self.keys))

    def opened(self) -> Store:
        """The store; raises InputError if none is named."""
        if not self.store:
            raise InputError("--store: expected a folder or a URL (or HIRL_MODEL_STORE)")
        return open_store(self.store)

    def artefact(self, name: str, trust: Trust | None = None) -> Artefact:
        """An artefact by its folder or the first digits of its version, verified."""
        trust = self.trust if trust is None else trust
        if Path(name).is_dir():
            return verified(_files(Path(name)), trust, name)
        store = self.opened()
        if len(name) < _LEAST_DIGITS or not set(name) <= set("0123456789abcdef"):
            raise InputError(
                f"{name}: is neither a folder nor the first {_LEAST_DIGITS} digits or more of a "
                "version; hirl models list shows them"
            )
        found = [entry for entry in store.entries() if entry.version.startswith(name)]
        if len(found) != 1:
            raise InputError(
                f"{name}: {len(found) or 'no'} versions in {store.url} begin with these digits; "
                "hirl models list shows all"
            )
        return fetch(store, found[0], trust)


def _files(folder: Path) -> Mapping[str, bytes]:
    return read_folder(folder)

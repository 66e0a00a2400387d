"""What the measurements on a real Kafka share: their scenario, an option, and a folder."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from services.cli.options import writable_folder

SCENARIO: Final = "flash-sale-20-min-early"
_FOLDER: Final = Path(".hirl")

AppsOption = Annotated[int, typer.Option("--apps", min=5, metavar="N", help="Apps in the cluster.")]


@contextmanager
def measurement_folder(name: str, console: Console) -> Iterator[Path]:
    """A new folder for data and logs, once Kafka's jars are there. After an error it stays."""
    # Imported when called: help texts need none of it.
    from services.devcluster.kafka import provision  # noqa: PLC0415

    writable_folder(_FOLDER)
    provision.runtime(console.print)
    _FOLDER.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=_FOLDER))
    yield folder
    # Not in `finally`: after an error its logs are needed.
    shutil.rmtree(folder, ignore_errors=True)

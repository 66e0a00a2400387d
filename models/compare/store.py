"""Finished jobs on disk, so that a benchmark that was stopped goes on where it was."""

import hashlib
import os
from pathlib import Path
from typing import Final

import msgspec

from models.compare.jobs import Finished, Job
from models.inputs.errors import InputError

FOLDER: Final = Path(".hirl/bench-control")


def load(folder: Path, job: Job) -> Finished | None:
    """What the job left behind; None when there is nothing, or the world or the code changed.

    A file that cannot be read counts as nothing: running again is always right.
    """
    try:
        found = msgspec.json.decode(_file(folder, job).read_bytes(), type=Finished)
    except (OSError, msgspec.DecodeError):
        return None
    same = (found.world_hash, found.code_hash) == (job.world_hash, job.code_hash)
    return found if same else None


def save(folder: Path, job: Job, finished: Finished) -> None:
    """Write under another name first: whoever reads sees all of it or nothing."""
    file = _file(folder, job)
    draft = file.with_suffix(f".{os.getpid()}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(msgspec.json.encode(finished))
        draft.replace(file)
    except OSError as error:
        raise InputError(f"{file}: cannot be written ({error.strerror})") from None


def _file(folder: Path, job: Job) -> Path:
    """Named after what was asked, not after the hashes: a changed world replaces its results."""
    identity = f"{job.label}, recorded {job.recorded}"
    digest = hashlib.sha256(identity.encode()).hexdigest()[:12]
    return folder / f"{job.scenario.name}-{digest}.json"

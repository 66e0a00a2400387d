"""Where artefacts are kept: a folder, or any URL that fsspec knows.

    STORE/KIND/VERSION/{model.onnx, manifest.json, signature.json, ...}

A store only has bytes; `load.py` decides what they are worth. Names that lead elsewhere, symbolic
links and files beyond the limits are never read.
"""

import os
import stat
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from models.inputs.errors import InputError
from models.registry.keys import Trust
from models.registry.load import LARGEST_ARTEFACT, MOST_FILES, Artefact, limit_of, verified
from models.registry.manifest import KINDS, Kind, check_file_name, is_digest


class Entry(NamedTuple):
    """An artefact in a store, not yet verified."""

    kind: Kind
    version: str


class Store(Protocol):
    """Reads and writes the files of artefacts."""

    url: str

    def entries(self) -> Iterator[Entry]:
        """Artefacts, by kind and version."""
        ...

    def read(self, entry: Entry) -> Mapping[str, bytes]:
        """The files of an artefact, within the limits."""
        ...

    def write(self, entry: Entry, files: Mapping[str, bytes]) -> None:
        """Add an artefact. One that is there already is the same: its name is its digest."""
        ...


def open_store(url: str) -> Store:
    """The store at a path or a URL."""
    if "://" not in url:
        return FolderStore(Path(url))
    return _UrlStore(url)


def fetch(store: Store, entry: Entry, trust: Trust) -> Artefact:
    """Read and verify an artefact of a store; it must be the one that its place says."""
    where = f"{store.url}/{entry.kind}/{entry.version[:12]}"
    check_entry(entry, where)
    artefact = verified(store.read(entry), trust, where)
    if (artefact.manifest.kind, artefact.version) != entry:
        found = f"{artefact.manifest.kind} {artefact.version[:12]}"
        raise InputError(f"{where}: holds {found}, another artefact than its place says")
    return artefact


def check_entry(entry: Entry, where: str) -> None:
    """Refuse what would lead out of the store."""
    if entry.kind not in KINDS or not is_digest(entry.version):
        raise InputError(
            f"{where}: expected a kind ({', '.join(KINDS)}) and a SHA-256 as the version"
        )


def read_folder(folder: Path, only: Collection[str] = ()) -> dict[str, bytes]:
    """The files of an artefact in a folder; raises InputError for anything that is no file.

    With `only`, other files are left alone.
    """
    try:
        with os.scandir(folder) as found:
            names = sorted(one.name for one in found if not only or one.name in only)
    except OSError as error:
        raise InputError(f"{folder}: cannot be read ({error.strerror})") from None
    if len(names) > MOST_FILES:
        raise InputError(f"{folder}: expected at most {MOST_FILES} files, got {len(names)}")
    files, size = {}, 0
    for name in names:
        check_file_name(name, str(folder))
        files[name] = _read_file(folder / name)
        size += len(files[name])
        if size > LARGEST_ARTEFACT:
            raise InputError(f"{folder}: is larger than {LARGEST_ARTEFACT >> 20} MiB")
    return files


def _read_file(path: Path) -> bytes:
    limit = limit_of(path.name)
    try:
        # Not followed: a link could lead to any file that the service can read. And not waited
        # for: a pipe without a writer would block.
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(number, "rb") as file:
            if not stat.S_ISREG(os.fstat(number).st_mode):
                raise InputError(f"{path}: is no file")
            data = file.read(limit + 1)
    except OSError as error:
        link = "is a symbolic link" if path.is_symlink() else "cannot be read"
        raise InputError(f"{path}: {link} ({error.strerror})") from None
    if len(data) > limit:
        raise InputError(f"{path}: is larger than {limit >> 20} MiB")
    return data


class FolderStore:
    """A folder of this machine, or one that is mounted."""

    def __init__(self, folder: Path) -> None:
        self.url = str(folder)
        self._folder = folder

    def entries(self) -> Iterator[Entry]:
        """Artefacts, by kind and version."""
        for kind in KINDS:
            folder = self._folder / kind
            names = sorted(one.name for one in folder.iterdir()) if folder.is_dir() else []
            yield from (Entry(kind, name) for name in names if is_digest(name))

    def read(self, entry: Entry) -> Mapping[str, bytes]:
        """The files of an artefact, within the limits."""
        folder = self._folder / entry.kind / entry.version
        if folder.is_symlink():
            raise InputError(f"{folder}: is a symbolic link")
        if not folder.is_dir():
            raise InputError(f"{folder}: no such artefact; hirl models list shows which there are")
        return read_folder(folder)

    def write(self, entry: Entry, files: Mapping[str, bytes]) -> None:
        """Add an artefact: all of its files appear at once, or none."""
        target = self._folder / entry.kind / entry.version
        if target.exists():
            return
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            # In the same file system, where renaming is atomic; its name is no digest.
            made = Path(tempfile.mkdtemp(prefix=".adding-", dir=target.parent))
            made.chmod(0o755)
            for name, data in files.items():
                (made / name).write_bytes(data)
            made.rename(target)
        except OSError as error:
            raise InputError(f"{target}: cannot be written ({error.strerror})") from None


class _UrlStore:
    """A store of fsspec, such as s3://bucket/models."""

    def __init__(self, url: str) -> None:
        try:
            import fsspec  # noqa: PLC0415  an optional extra
        except ImportError:
            raise InputError(f"{url}: needs fsspec, install the extra `stores`") from None
        self.url = url.rstrip("/")
        try:
            fs, root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise InputError(f"{url}: {' '.join(str(error).split())}") from None
        self._fs: Any = fs
        self._root = str(root).rstrip("/")

    def entries(self) -> Iterator[Entry]:
        """Artefacts, by kind and version."""
        for kind in KINDS:
            for name in sorted(self._names(f"{self._root}/{kind}")):
                if is_digest(name):
                    yield Entry(kind, name)

    def read(self, entry: Entry) -> Mapping[str, bytes]:
        """The files of an artefact, within the limits."""
        folder = f"{self._root}/{entry.kind}/{entry.version}"
        where = f"{self.url}/{entry.kind}/{entry.version[:12]}"
        names = self._names(folder)
        if not names:
            raise InputError(f"{where}: no such artefact; hirl models list shows which there are")
        if len(names) > MOST_FILES:
            raise InputError(f"{where}: expected at most {MOST_FILES} files, got {len(names)}")
        files, size = {}, 0
        for name in sorted(names):
            check_file_name(name, where)
            files[name] = self._read(f"{folder}/{name}", limit_of(name), f"{where}/{name}")
            size += len(files[name])
            if size > LARGEST_ARTEFACT:
                raise InputError(f"{where}: is larger than {LARGEST_ARTEFACT >> 20} MiB")
        return files

    def write(self, entry: Entry, files: Mapping[str, bytes]) -> None:
        """Add an artefact, its manifest last: without one it is no artefact."""
        folder = f"{self._root}/{entry.kind}/{entry.version}"
        try:
            self._fs.makedirs(folder, exist_ok=True)
            for name in sorted(files, key=lambda one: one == "manifest.json"):
                self._fs.pipe_file(f"{folder}/{name}", files[name])
        except Exception as error:  # noqa: BLE001  each file system has errors of its own
            raise InputError(f"{self.url}: cannot be written ({_line(error)})") from None

    def _names(self, folder: str) -> list[str]:
        try:
            return [str(path).rpartition("/")[2] for path in self._fs.ls(folder, detail=False)]
        except FileNotFoundError:
            return []
        except Exception as error:  # noqa: BLE001  as above
            raise InputError(f"{self.url}: cannot be read ({_line(error)})") from None

    def _read(self, path: str, limit: int, where: str) -> bytes:
        try:
            linked = bool(self._fs.info(path).get("islink"))
            with self._fs.open(path, "rb") as file:
                data = b"" if linked else bytes(file.read(limit + 1))
        except Exception as error:  # noqa: BLE001  as above
            raise InputError(f"{where}: cannot be read ({_line(error)})") from None
        if linked:
            raise InputError(f"{where}: is a symbolic link")
        if len(data) > limit:
            raise InputError(f"{where}: is larger than {limit >> 20} MiB")
        return data


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__

"""Compose, and stand-ins for the images that our files name: no registry can be reached.

Both are made from packages, once, into a cache. Stand-ins have the names that our files use, so
those files are used unchanged.
"""

import os
import shutil
import sys
from pathlib import Path
from typing import Final

from services.devcluster import prometheus
from services.devcluster.kafka import provision
from tests.containers.engine_helpers import Engine, run

ROOT: Final = Path(__file__).parents[2]
_COMPOSE: Final = "v2.40.3"
_BASE: Final = "python:3.11-slim"
_STANDINS: Final = Path(__file__).parent / "standins"
_PACKAGES: Final = "ca-certificates,python3.11-minimal,libpython3.11-stdlib,busybox"
_CA: Final = "etc/ssl/certs/ca-certificates.crt"
_LEFT_OUT: Final = shutil.ignore_patterns("test", "site-packages", "__pycache__", "config-*")
"""Of CPython, as in the official image, which has no bytecode of the standard library either."""


def cache() -> Path:
    """Folder of what is made once."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(root) / "hirl" / "containers"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def compose() -> Path:
    """Docker Compose, built from its Go module (up to 20 minutes, once)."""
    program = cache() / f"docker-compose-{_COMPOSE}"
    if not program.is_file():
        module = f"github.com/docker/compose/v2@{_COMPOSE}"
        run("go", "mod", "download", module)
        source = cache() / "compose"
        shutil.rmtree(source, ignore_errors=True)
        # A copy: `go install` refuses the module for its `exclude` lines.
        shutil.copytree(Path(run("go", "env", "GOMODCACHE").strip()) / module, source)
        run("chmod", "-R", "u+w", str(source))
        version = f"-X github.com/docker/compose/v2/internal.Version={_COMPOSE}"
        draft = program.with_suffix(".draft")
        build = ("go", "build", "-C", str(source), "-trimpath", "-ldflags", f"-s -w {version}")
        run(*build, "-o", str(draft), "./cmd", environment={**os.environ, "CGO_ENABLED": "0"})
        draft.rename(program)
        shutil.rmtree(source)
    return program


def base() -> Path:
    """A small Debian with this machine's CPython, as a tar (minutes, once)."""
    archive = cache() / "base.tar"
    if not archive.is_file():
        root = cache() / "rootfs"
        shutil.rmtree(root, ignore_errors=True)
        include = f"--include={_PACKAGES}"
        run("debootstrap", "--variant=minbase", include, "bookworm", str(root))
        _install_python(root)
        draft = archive.with_suffix(".draft")
        run("tar", "-C", str(root), "--exclude=./var/cache/apt/*", "-cf", str(draft), ".")
        draft.rename(archive)
        shutil.rmtree(root)
    return archive


def _install_python(root: Path) -> None:
    # Debian's is there for the libraries that it needs.
    (root / "usr/bin/python3.11").unlink()
    shutil.rmtree(root / "usr/lib/python3.11")
    own, local = Path(sys.base_prefix), root / "usr/local"
    shutil.copy(own / "bin/python3.11", local / "bin/python3.11")
    for name in ("python", "python3"):
        (local / "bin" / name).symlink_to("python3.11")
    for library in own.glob("lib/libpython3*"):
        shutil.copy(library, local / "lib")
    library = local / "lib/python3.11"
    shutil.rmtree(library, ignore_errors=True)
    shutil.copytree(own / "lib/python3.11", library, ignore=_LEFT_OUT)
    packages = own / "lib/python3.11/site-packages"
    for name in ("pip", "setuptools", "pkg_resources", "_distutils_hack"):
        if (packages / name).is_dir():
            shutil.copytree(packages / name, library / "site-packages" / name, ignore=_LEFT_OUT)
    # uv does not find the authority of a registry in between otherwise.
    shutil.copy(Path("/") / _CA, root / _CA)
    run("chroot", str(root), "ldconfig")


def stand_in(engine: Engine) -> None:
    """Give the engine the images that it would pull."""
    images = engine.docker("images", "--format", "{{.Repository}}:{{.Tag}}").split()
    if _BASE not in images:
        settings = ("PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LANG=C.UTF-8")
        changes = [*(f"ENV {one}" for one in settings), f"ENV SSL_CERT_FILE=/{_CA}"]
        options = [word for change in changes for word in ("-c", change)]
        engine.docker("import", *options, str(base()), _BASE)
    for name, image in (("kafka", "apache/kafka:4.3.1"), ("prometheus", "prom/prometheus:v2.55.1")):
        if image not in images:
            context = _context(name)
            file = str(_STANDINS / f"{name}.Dockerfile")
            engine.docker("build", "--network=host", "-f", file, "-t", image, str(context))
            shutil.rmtree(context)


def _context(name: str) -> Path:
    context = cache() / f"context-{name}"
    shutil.rmtree(context, ignore_errors=True)
    context.mkdir()
    if name == "prometheus":
        shutil.copy(prometheus.program(), context / "prometheus")
        run("tar", "-C", str(context), "-xf", str(base()), "--strip-components=3", _BUSYBOX)
        return context
    shutil.copytree(provision.jars(), context / "libs")
    home = Path(provision.java()).resolve().parents[1]
    shutil.copytree(home, context / "jre", ignore=shutil.ignore_patterns("jmods", "src.zip"))
    shutil.copy(_STANDINS / "kafka-run", context)
    (context / "configs").mkdir()
    for file in ("server.properties", "log4j2.yaml", "tools-log4j2.yaml"):
        # The wrapper wants them; what is set comes from variables.
        (context / "configs" / file).write_text("")
    return context


_BUSYBOX: Final = "./usr/bin/busybox"

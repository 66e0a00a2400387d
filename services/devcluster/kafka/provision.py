"""What a broker needs before it can start: Java, and Kafka's jars from Maven."""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from models.inputs.errors import InputError
from services.devcluster.kafka.description import HOME
from services.devcluster.processes import Notify, locked, silent

INFRA: Final = Path(__file__).parents[3] / "infra" / "kafka"
"""Versions and configuration; part of a checkout, not of an installed package."""
LIBS: Final = HOME / "libs"
"""Shared by all clusters of a checkout: jars don't change."""
JAVA_NEEDED: Final = 17
"""Brokers of Kafka 4 need it."""
MEMORY_INSTEAD: Final = "or run without Kafka: --bus memory"
_STAMP: Final = ".pom-sha256"
_FETCH_TIMEOUT_S: Final = 600.0


class Runtime(NamedTuple):
    """How to run one of Kafka's main classes."""

    java: str
    options: tuple[str, ...]
    """Options of the JVM: classpath and logging."""
    version: str
    """Version of Kafka."""


def runtime(notify: Notify = silent) -> Runtime:
    """Java and the jars, fetched on first use."""
    program, libs = java(), jars(notify)
    logging = f"-Dlog4j2.configurationFile={INFRA / 'log4j2.properties'}"
    return Runtime(program, (logging, "-cp", f"{libs}/*"), kafka_version(libs))


def java() -> str:
    """Path of a Java that is new enough; an older one would fail with a stack trace."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else None)
    if found is None:
        raise InputError(
            f"Kafka needs Java {JAVA_NEEDED} or newer and none is installed: "
            f"install openjdk-{JAVA_NEEDED}-jre-headless, {MEMORY_INSTEAD}"
        )
    done = subprocess.run([found, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    version = java_version(done.stderr)
    if version < JAVA_NEEDED:
        raise InputError(
            f"Kafka needs Java {JAVA_NEEDED} or newer, {found} is {version or 'unknown'}: "
            f"install openjdk-{JAVA_NEEDED}-jre-headless, {MEMORY_INSTEAD}"
        )
    return found


def java_version(output: str) -> int:
    """The major version in the output of `java -version`; 0 if it contains none."""
    # Java 8 and older call themselves 1.8; later ones begin with the major version.
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(match.group(1)) if match else 0


def jars(notify: Notify = silent, libs: Path = LIBS) -> Path:
    """The folder with the broker's jars, fetched if it is missing or of another version."""
    pom = INFRA / "pom.xml"
    if not pom.is_file():
        raise InputError(f"{pom}: is missing; run hirl from a checkout of the repository")
    # The stamp is a hash of the pom: a new Kafka version fetches new jars by itself.
    wanted = hashlib.sha256(pom.read_bytes()).hexdigest()
    stamp = libs / _STAMP
    # Locked beside the folder of jars, which a fetch replaces as a whole.
    with locked(libs.parent / "fetching"):
        if not stamp.is_file() or stamp.read_text() != wanted:
            _fetch(pom, wanted, libs, notify)
    return libs.resolve()


def kafka_version(libs: Path) -> str:
    """The Kafka version of the jars in a folder."""
    names = [jar.name for jar in libs.glob("kafka_2.13-*.jar")]
    if not names:
        raise InputError(f"{libs}: contains no Kafka; remove the folder and try again")
    return names[0].removeprefix("kafka_2.13-").removesuffix(".jar")


def _fetch(pom: Path, wanted: str, libs: Path, notify: Notify) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise InputError(
            f"Maven fetches Kafka's jars and mvn is not installed: install maven, {MEMORY_INSTEAD}"
        )
    # Fetch into a draft folder, then rename: an interrupted fetch leaves no half-filled folder.
    draft = Path(tempfile.mkdtemp(prefix="libs-", dir=libs.parent)).resolve()
    try:
        notify("fetching Kafka's jars with Maven (54 MB) ...")
        _copy_dependencies(maven, pom, draft)
        (draft / _STAMP).write_text(wanted)
        shutil.rmtree(libs, ignore_errors=True)
        draft.rename(libs)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _copy_dependencies(maven: str, pom: Path, folder: Path) -> None:
    command = [
        *(maven, "--batch-mode", "--quiet", "--file", str(pom)),
        *("dependency:copy-dependencies", f"-DoutputDirectory={folder}", "-DincludeScope=runtime"),
    ]
    try:
        done = subprocess.run(  # noqa: S603  (our own command line)
            command, capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise InputError(
            f"Maven did not fetch Kafka's jars within {_FETCH_TIMEOUT_S:.0f} s"
        ) from None
    if done.returncode != 0:
        errors = [line for line in done.stdout.splitlines() if "ERROR" in line]
        raise InputError(
            f"Maven could not fetch Kafka's jars: {errors[0] if errors else done.stderr}"
        )

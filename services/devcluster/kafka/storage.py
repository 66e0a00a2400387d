"""The data folders of a cluster: prepared once, with the users of a secured one in them."""

import base64
import shutil
import subprocess
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from rich.console import Console

from models.inputs.errors import InputError
from services.devcluster.kafka import description, properties, security
from services.devcluster.kafka.description import Description, Node
from services.devcluster.kafka.provision import Runtime

_FORMAT_S: Final = 60.0
_TOLD: Final = 500
"""Characters of a failed tool's words that are shown."""


def new_cluster_id() -> str:
    """A random id in Kafka's spelling: a UUID in 22 characters that looks like no option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def prepare(home: Path, cluster: Description, runtime: Runtime, console: Console) -> None:
    """Format what is not formatted yet; may be called again after an interruption."""
    known = _passwords(home, cluster, console) if cluster.security == "sasl_ssl" else {}
    users = security.scram_arguments(known)

    def prepare_node(node: Node) -> None:
        properties.write(home, cluster, node)
        if not (properties.data_of(home, node) / "meta.properties").is_file():
            _format(home, cluster, node, runtime, users)

    # Each is a Java of its own that takes a second to start.
    with ThreadPoolExecutor() as pool:
        list(pool.map(prepare_node, cluster.nodes))


def wipe(home: Path) -> None:
    """Remove everything but the jars."""
    for folder in ("data", "tls", "credentials"):
        shutil.rmtree(home / folder, ignore_errors=True)
    for file in (*home.glob("broker-*"), home / description.FILE_NAME):
        file.unlink(missing_ok=True)


def _passwords(home: Path, cluster: Description, console: Console) -> dict[str, str]:
    """As they are in the credentials, which are written again because ports may have changed."""
    if security.key_store_file(home).is_file():
        known = security.known_passwords(home)
    else:
        console.print("making certificates and passwords")
        known = security.passwords()
        security.make_certificates(home)
    security.write_credentials(home, cluster.bootstrap, known)
    return known


def _format(
    home: Path, cluster: Description, node: Node, runtime: Runtime, users: Sequence[str]
) -> None:
    properties.data_of(home, node).mkdir(parents=True, exist_ok=True)
    words = [
        *("-XX:TieredStopAtLevel=1", *runtime.options, "kafka.tools.StorageTool", "format"),
        *("--cluster-id", cluster.cluster_id, "--config", str(properties.file_of(home, node))),
        *users,
    ]
    # In a private file, because the words of a command line are for everyone on the machine.
    arguments = home / f"format-{node.id}.args"
    security.write_private(arguments, "\n".join(f'"{word}"' for word in words))
    try:
        done = subprocess.run(  # noqa: S603  (our own command line)
            [runtime.java, f"@{arguments}"],
            capture_output=True,
            text=True,
            timeout=_FORMAT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"Kafka's StorageTool did not end within {_FORMAT_S:.0f} s") from None
    finally:
        arguments.unlink()
    if done.returncode != 0:
        raise InputError(f"Kafka's StorageTool failed: {(done.stderr or done.stdout)[-_TOLD:]}")

"""Files of an embedded cluster: broker configuration from infra/kafka, formatted data folders."""

import base64
import re
import shutil
import subprocess
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from models.inputs.errors import InputError
from services.admin.desired import in_sync
from services.devcluster.kafka import description, security
from services.devcluster.kafka.description import Description, Node
from services.devcluster.kafka.provision import INFRA, Runtime
from services.devcluster.processes import HOST, Notify

_FORMAT_S: Final = 60.0
_MOST_OUTPUT: Final = 500
"""Characters of a failed tool's output that the error message shows."""


def new_cluster_id() -> str:
    """A random UUID in Kafka's spelling: 22 characters, and no leading dash."""
    # A leading dash would look like an option to StorageTool.
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def configuration_file(home: Path, node: Node) -> Path:
    """A broker's configuration; the path in its command line identifies its process."""
    return (home / f"broker-{node.id}.properties").resolve()


def log_file(home: Path, node: Node) -> Path:
    """A broker's standard output."""
    return home / f"broker-{node.id}.log"


def data_folder(home: Path, node: Node) -> Path:
    """A broker's records."""
    return (home / "data" / str(node.id)).resolve()


def prepare(home: Path, cluster: Description, runtime: Runtime, notify: Notify) -> None:
    """Write configurations and format what isn't formatted yet; safe to repeat."""
    passwords = _passwords(home, cluster, notify) if cluster.security == "sasl_ssl" else {}
    users = security.scram_arguments(passwords)

    def prepare_node(node: Node) -> None:
        _write_configuration(home, cluster, node)
        if not (data_folder(home, node) / "meta.properties").is_file():
            _format(home, cluster, node, runtime, users)

    # Each format starts a JVM, which takes a second.
    with ThreadPoolExecutor() as pool:
        list(pool.map(prepare_node, cluster.nodes))


def wipe(home: Path) -> None:
    """Remove everything but the jars."""
    for folder in ("data", "tls", "credentials"):
        shutil.rmtree(home / folder, ignore_errors=True)
    for file in (*home.glob("broker-*"), home / description.FILE_NAME):
        file.unlink(missing_ok=True)


def _write_configuration(home: Path, cluster: Description, node: Node) -> None:
    extra = "plain" if cluster.security == "plain" else "secure"
    template = "\n".join((INFRA / f"{name}.properties").read_text() for name in ("broker", extra))
    lines = (line for line in template.splitlines() if not line.startswith("#"))
    values = _template_values(home, cluster, node)
    # A placeholder without a value is a bug, so the KeyError may surface.
    text = re.sub(r"@([A-Z_]+)@", lambda found: values[found.group(1)], "\n".join(lines) + "\n")
    configuration_file(home, node).write_text(text)


def _template_values(home: Path, cluster: Description, node: Node) -> dict[str, str]:
    # A partition has at most one copy per broker.
    replication = min(3, len(cluster.nodes))
    voters = (f"{other.id}@{HOST}:{other.controller_port}" for other in cluster.nodes)
    return {
        "NODE": str(node.id),
        "DATA": str(data_folder(home, node)),
        "VOTERS": ",".join(voters),
        "PORT": str(node.port),
        "CONTROLLER_PORT": str(node.controller_port),
        "BROKER_PORT": str(node.broker_port),
        "REPLICATION": str(replication),
        "IN_SYNC": str(in_sync(replication)),
        "KEY_STORE": str(security.key_store_file(home)),
        "AUTHORITY": str(security.authority_file(home)),
        "COMMON_NAME": security.COMMON_NAME,
    }


def _passwords(home: Path, cluster: Description, notify: Notify) -> dict[str, str]:
    """Existing passwords or new ones. Credentials are rewritten because ports may have changed."""
    if security.key_store_file(home).is_file():
        passwords = security.stored_passwords(home)
    else:
        notify("creating certificates and passwords")
        passwords = security.new_passwords()
        security.create_certificates(home)
    security.write_credentials(home, cluster.bootstrap, passwords)
    return passwords


def _format(
    home: Path, cluster: Description, node: Node, runtime: Runtime, users: Sequence[str]
) -> None:
    data_folder(home, node).mkdir(parents=True, exist_ok=True)
    words = [
        *("-XX:TieredStopAtLevel=1", *runtime.options, "kafka.tools.StorageTool", "format"),
        *("--cluster-id", cluster.cluster_id, "--config", str(configuration_file(home, node))),
        *users,
    ]
    # In a private file, because every user of the machine can read command lines.
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
        output = (done.stderr or done.stdout)[-_MOST_OUTPUT:]
        raise InputError(f"Kafka's StorageTool failed: {output}")

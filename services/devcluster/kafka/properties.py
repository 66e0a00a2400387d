"""A broker's configuration: the templates of infra/kafka with their blanks filled in."""

import re
from pathlib import Path

from services.admin.desired import in_sync
from services.devcluster.kafka.description import HOST, Description, Node
from services.devcluster.kafka.provision import INFRA
from services.devcluster.kafka.security import COMMON_NAME, authority_file, key_store_file


def file_of(home: Path, node: Node) -> Path:
    """Where a broker's configuration is; its command line, and so its process, is known by it."""
    return (home / f"broker-{node.id}.properties").resolve()


def log_of(home: Path, node: Node) -> Path:
    """What a broker prints."""
    return home / f"broker-{node.id}.log"


def data_of(home: Path, node: Node) -> Path:
    """Where a broker keeps its records."""
    return (home / "data" / str(node.id)).resolve()


def write(home: Path, cluster: Description, node: Node) -> None:
    """Write one broker's configuration."""
    extra = "plain" if cluster.security == "plain" else "secure"
    template = "\n".join((INFRA / f"{name}.properties").read_text() for name in ("broker", extra))
    file_of(home, node).write_text(filled(template, _blanks(home, cluster, node)))


def filled(template: str, blanks: dict[str, str]) -> str:
    """The template with each @NAME@ replaced; a name that nobody knows is a bug and raises."""
    lines = (line for line in template.splitlines() if not line.startswith("#"))
    return re.sub(r"@([A-Z_]+)@", lambda found: blanks[found.group(1)], "\n".join(lines) + "\n")


def _blanks(home: Path, cluster: Description, node: Node) -> dict[str, str]:
    replication = min(3, len(cluster.nodes))
    voters = (f"{other.id}@{HOST}:{other.controller_port}" for other in cluster.nodes)
    return {
        "NODE": str(node.id),
        "DATA": str(data_of(home, node)),
        "VOTERS": ",".join(voters),
        "PORT": str(node.port),
        "CONTROLLER_PORT": str(node.controller_port),
        "BROKER_PORT": str(node.broker_port),
        "REPLICATION": str(replication),
        "IN_SYNC": str(in_sync(replication)),
        "KEY_STORE": str(key_store_file(home)),
        "AUTHORITY": str(authority_file(home)),
        "COMMON_NAME": COMMON_NAME,
    }

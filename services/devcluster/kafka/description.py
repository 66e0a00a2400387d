"""An embedded cluster and `cluster.json`, the file through which other commands find it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from models.inputs.errors import InputError
from services.devcluster.processes import HOST

HOME: Final = Path(".hirl/kafka")
"""Default folder of the embedded cluster."""
FILE_NAME: Final = "cluster.json"

Security = Literal["plain", "sasl_ssl"]


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One combined broker and controller."""

    id: int
    port: int
    """Port for clients."""
    controller_port: int
    broker_port: int
    """Port for the other brokers; equals `port` on a cluster without security."""
    pid: int | None = None
    """None while the node is stopped."""


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """One cluster. The file outlives `down`, so the next `up` gets the same ports and data."""

    bootstrap: str
    """Comma-separated, as clients expect it."""
    version: str
    cluster_id: str
    security: Security
    nodes: tuple[Node, ...]


def bootstrap_of(nodes: tuple[Node, ...]) -> str:
    """The client addresses of all brokers."""
    return ",".join(f"{HOST}:{node.port}" for node in nodes)


def new_nodes(
    count: int, security: Security, port: int | None, free: Sequence[int]
) -> tuple[Node, ...]:
    """Nodes on three free ports each; with `port`, client ports count up from it."""
    nodes = []
    for index in range(count):
        client_port, controller_port, broker_port = free[3 * index : 3 * index + 3]
        if port is not None:
            client_port = port + index
        # Only a secured cluster has a listener for brokers (infra/kafka/secure.properties).
        if security == "plain":
            broker_port = client_port
        nodes.append(
            Node(
                id=index + 1,
                port=client_port,
                controller_port=controller_port,
                broker_port=broker_port,
            )
        )
    return tuple(nodes)


def read(home: Path) -> Description | None:
    """The cluster in the folder `home`; None if there never was one."""
    path = home / FILE_NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=Description)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, OSError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None


def write(home: Path, description: Description) -> None:
    """Replace the file atomically, because other commands may be reading it."""
    home.mkdir(parents=True, exist_ok=True)
    # In the same folder: a rename is atomic only within a file system.
    draft = home / f"{FILE_NAME}.new"
    draft.write_bytes(msgspec.json.format(msgspec.json.encode(description), indent=2) + b"\n")
    draft.replace(home / FILE_NAME)

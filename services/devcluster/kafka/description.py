"""What is known of an embedded cluster, and the file that tells others: `cluster.json`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from models.inputs.errors import InputError

HOME: Final = Path(".hirl/kafka")
"""Where the embedded cluster lives when nothing else is said."""
HOST: Final = "127.0.0.1"
FILE_NAME: Final = "cluster.json"

Security = Literal["plain", "sasl_ssl"]


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One combined broker and controller."""

    id: int
    port: int
    """For clients."""
    controller_port: int
    broker_port: int
    """For the other brokers; the clients' port where there is no security."""
    pid: int | None = None
    """None while it is stopped."""


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """One cluster. The file outlives `down`, so that the next `up` has the same ports and data."""

    bootstrap: str
    """Comma-separated, as clients want it."""
    version: str
    cluster_id: str
    security: Security
    nodes: tuple[Node, ...]


def bootstrap_of(nodes: tuple[Node, ...]) -> str:
    """Where clients find the brokers."""
    return ",".join(f"{HOST}:{node.port}" for node in nodes)


def new_nodes(
    count: int, security: Security, port: int | None, free: Sequence[int]
) -> tuple[Node, ...]:
    """Nodes on three free ports each, or with the clients' ports from `port` on."""
    nodes = []
    for index in range(count):
        client_port, controller_port, broker_port = free[3 * index : 3 * index + 3]
        if port is not None:
            client_port = port + index
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
    """The cluster whose home is `home`; None if there never was one."""
    path = home / FILE_NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=Description)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, OSError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None


def write(home: Path, description: Description) -> None:
    """Tell others; in one move, because they may be reading."""
    home.mkdir(parents=True, exist_ok=True)
    draft = home / f"{FILE_NAME}.new"
    draft.write_bytes(msgspec.json.format(msgspec.json.encode(description), indent=2) + b"\n")
    draft.replace(home / FILE_NAME)

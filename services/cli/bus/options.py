"""Options of the commands that connect to a broker."""

import socket
from pathlib import Path
from typing import Any, Final

import typer

from models.inputs.errors import InputError

_CONNECT_S: Final = 5.0


def bootstrap_option(default: str) -> Any:
    """`--bootstrap`; `default` says which brokers are used without it."""
    return typer.Option(
        "--bootstrap",
        metavar="HOST:PORT",
        envvar="HIRL_KAFKA_BOOTSTRAP",
        help=f"Brokers, comma-separated; {default} when not given.",
    )


def broker_options(bootstrap: str | None, credentials: Path | None) -> dict[str, Any]:
    """Arguments for a Kafka client; raises InputError if no broker can be reached."""
    # Imported when called: help texts need none of it.
    from services.devcluster.connect import options_of  # noqa: PLC0415

    options = options_of(bootstrap, credentials)
    check_reachable(options)
    return options


def check_reachable(options: dict[str, Any]) -> None:
    """Check that a broker listens: a client would try for many seconds and not say why."""
    servers: list[str] = options["bootstrap_servers"]
    reason = ""
    for server in servers:
        host, _, port = server.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
        except OSError as error:
            reason = error.strerror or str(error)
        else:
            return
    where = ",".join(servers)
    raise InputError(f"cannot connect to Kafka at {where} ({reason}): does it run there?")


def credentials_option(whose: str) -> Any:
    """`--credentials`; `whose` says what the user has to be allowed to do."""
    return typer.Option("--credentials", metavar="FILE", help=f"HIRL_KAFKA_* variables of {whose}.")

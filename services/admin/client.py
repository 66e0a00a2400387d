"""Connect as an administrator, and wait until all brokers answer."""

import socket
import time
from collections.abc import Callable
from typing import Any, Final

from kafka.errors import KafkaError

from models.inputs.errors import InputError
from services._kit.kafka_python import KafkaAdminClient, closed_on_failure

_TRY_MS: Final = 2_000
"""Timeout of one attempt while brokers start. Short, so that `check` is called often: a broker that
died is reported at once instead of at the end of the wait."""
_PAUSE_S: Final = 0.2
_REQUEST_MS: Final = 15_000
"""Timeout of a request to brokers that should already run."""


def admin(client_options: dict[str, Any], timeout_ms: int = _REQUEST_MS) -> KafkaAdminClient:
    """An administrator's connection; a failure becomes an InputError."""
    servers = ",".join(client_options["bootstrap_servers"])
    limits = {"bootstrap_timeout_ms": timeout_ms, "request_timeout_ms": _REQUEST_MS}
    try:
        with closed_on_failure() as create:
            return KafkaAdminClient(**client_options, **limits, kafka_client=create)
    except KafkaError as error:
        raise InputError(
            f"cannot connect to Kafka at {servers} ({error}): does it run, is the password right?"
        ) from None


def wait_until_answering(
    client_options: dict[str, Any], timeout_s: float, check: Callable[[], None]
) -> str:
    """Wait for all brokers and return the cluster's id; `check` raises to stop the wait."""
    servers = client_options["bootstrap_servers"]
    deadline = time.monotonic() + timeout_s
    while True:
        check()
        # For some seconds the other brokers still list a killed one, so check its port, too.
        if all(map(_listens, servers)):
            cluster_id, present = _describe(client_options)
            if present >= len(servers):
                return cluster_id
        if time.monotonic() > deadline:
            raise InputError(f"not all of {','.join(servers)} answered within {timeout_s:.0f} s")
        time.sleep(_PAUSE_S)


def _listens(server: str) -> bool:
    host, port = server.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def _describe(client_options: dict[str, Any]) -> tuple[str, int]:
    """The cluster's id and its number of ready brokers; 0 while it doesn't answer."""
    try:
        client = admin(client_options, _TRY_MS)
    except InputError:
        return "", 0
    try:
        described = client.describe_cluster()
        # A fenced broker is registered but doesn't serve yet.
        ready = [broker for broker in described["brokers"] if not broker.get("is_fenced")]
        return str(described["cluster_id"]), len(ready)
    # It may go away again between the connection and the answer.
    except KafkaError:
        return "", 0
    finally:
        client.close()

"""How kafka-python is told to connect, and the wait until a broker really answers."""

import socket
import time
from collections.abc import Callable
from typing import Any, Final

from kafka import KafkaAdminClient
from kafka.errors import KafkaError
from kafka.net.compat import KafkaNetClient

from models.inputs.errors import InputError

_TRY_MS: Final = 2_000
_PAUSE_S: Final = 0.2
_REQUEST_MS: Final = 15_000


def admin(client_options: dict[str, Any], patience_ms: int = _REQUEST_MS) -> KafkaAdminClient:
    """An administrator's connection; what goes wrong becomes one line."""
    servers = ",".join(client_options["bootstrap_servers"])
    made: list[KafkaNetClient] = []

    def make(**given: Any) -> KafkaNetClient:
        made.append(KafkaNetClient(**given))
        return made[-1]

    limits = {"bootstrap_timeout_ms": patience_ms, "request_timeout_ms": _REQUEST_MS}
    try:
        return KafkaAdminClient(**client_options, **limits, kafka_client=make)
    except KafkaError as error:
        # kafka-python 3.0.12 leaves the thread of a client that found no broker running.
        for one in made:
            one.close()
            one._manager._net.stop()  # noqa: SLF001
        raise InputError(
            f"no Kafka lets us in at {servers} ({error}); does it run, is the password right?"
        ) from None


def wait_until_answering(
    client_options: dict[str, Any], patience_s: float, check: Callable[[], None]
) -> str:
    """The cluster's id, once all brokers are there; `check` raises when waiting is in vain."""
    servers = client_options["bootstrap_servers"]
    deadline = time.monotonic() + patience_s
    while True:
        check()
        # The others count a broker that was killed as present for some seconds; its port tells.
        if all(map(_listens, servers)):
            cluster_id, present = _ask(client_options)
            if present >= len(servers):
                return cluster_id
        if time.monotonic() > deadline:
            raise InputError(f"not all of {','.join(servers)} answered within {patience_s:.0f} s")
        time.sleep(_PAUSE_S)


def _listens(server: str) -> bool:
    host, port = server.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def _ask(client_options: dict[str, Any]) -> tuple[str, int]:
    """The cluster's id and its brokers that are ready; none while it does not answer."""
    try:
        client = admin(client_options, _TRY_MS)
    except InputError:
        return "", 0
    try:
        told = client.describe_cluster()
        ready = [broker for broker in told["brokers"] if not broker.get("is_fenced")]
        return str(told["cluster_id"]), len(ready)
    except KafkaError:
        return "", 0
    finally:
        client.close()

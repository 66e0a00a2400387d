"""The clients of kafka-python with compiled checksums: import them from here.

kafka-python computes the checksum of every batch in Python, a tenth of a second per megabyte,
unless a package is installed whose licence is not agreed to here. aiokafka has a compiled one.

kafka-python 3.0.12 also leaves things open while brokers are down: the socket of every refused
connection, and the thread of a client whose constructor found no broker. Both are closed here, so
that waiting for brokers costs neither descriptors nor threads.
"""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from aiokafka.record.util import calc_crc32c
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.net.compat import KafkaNetClient
from kafka.net.inet import KafkaNetSocket
from kafka.record import default_records

__all__ = ["KafkaAdminClient", "KafkaConsumer", "KafkaProducer", "closed_on_failure"]

default_records.calc_crc32c = calc_crc32c

_connect = KafkaNetSocket.sock_connect


async def _connect_or_close(
    self: KafkaNetSocket, net: Any, sock: socket.socket, *address: Any, **limits: Any
) -> socket.socket:
    try:
        connected: socket.socket = await _connect(self, net, sock, *address, **limits)
    except BaseException:
        sock.close()
        raise
    return connected


KafkaNetSocket.sock_connect = _connect_or_close


@contextmanager
def closed_on_failure() -> Iterator[Callable[..., KafkaNetClient]]:
    """Give a constructor's `kafka_client` option; if it raises, close the clients it made."""
    created: list[KafkaNetClient] = []

    def create(**options: Any) -> KafkaNetClient:
        created.append(KafkaNetClient(**options))
        return created[-1]

    try:
        yield create
    except BaseException:
        for client in created:
            client.close()
            client._manager._net.stop()  # noqa: SLF001
        raise

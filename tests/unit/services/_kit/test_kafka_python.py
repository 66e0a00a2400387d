import gc
import socket
import threading
from pathlib import Path

import pytest
from kafka.errors import KafkaError
from kafka.record import default_records
from kafka.record.util import calc_crc32c as in_python

from services._kit import kafka_python


@pytest.mark.parametrize("form", [bytes, bytearray, lambda data: memoryview(data)[3:]])
def test_checksums_are_compiled_and_those_of_kafka_python(form: object) -> None:
    assert callable(form)
    assert kafka_python.KafkaProducer
    assert default_records.calc_crc32c is not in_python
    for size in (3, 100, 100_000):
        data = form(bytes(range(256)) * (size // 256 + 1))
        assert default_records.calc_crc32c(data) == in_python(data)


def test_a_client_that_finds_no_broker_leaves_neither_sockets_nor_threads() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    before = (descriptors(), threading.active_count())
    with pytest.raises(KafkaError), kafka_python.closed_on_failure() as create:
        kafka_python.KafkaConsumer(
            bootstrap_servers=f"127.0.0.1:{port}",
            bootstrap_timeout_ms=400,
            reconnect_backoff_ms=50,
            kafka_client=create,
        )
    # Sockets that only the garbage collector closes would become warnings, hence errors.
    gc.collect()
    assert (descriptors(), threading.active_count()) == before


def descriptors() -> set[str]:
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}

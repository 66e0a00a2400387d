import pytest
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

"""The clients of kafka-python with compiled checksums: import them from here.

kafka-python computes the checksum of every batch in Python, a tenth of a second per megabyte,
unless a package is installed whose licence is not agreed to here. aiokafka has a compiled one.
"""

from aiokafka.record.util import calc_crc32c
from kafka import KafkaConsumer, KafkaProducer
from kafka.record import default_records

__all__ = ["KafkaConsumer", "KafkaProducer"]

default_records.calc_crc32c = calc_crc32c

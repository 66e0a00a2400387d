"""Announce a campaign to the forecaster, or cancel it.

    python docs/examples/calendar_publisher.py 127.0.0.1:9092 spring-sale payments,merchant \
        2027-03-20T18:00:00Z 2027-03-20T20:00:00Z 2.5
    python docs/examples/calendar_publisher.py 127.0.0.1:9092 spring-sale payments,merchant \
        2027-03-20T18:00:00Z 2027-03-20T20:00:00Z 2.5 --cancel

The calendar is what was announced, not what happens. A forecast may raise capacity because of it
and never lowers it below what is needed now, so a wrong entry costs nodes and not requests.
"""

import argparse
from collections.abc import Sequence

from kafka import KafkaProducer

from schemas.codec import encode
from schemas.event_scheduled import EventScheduled

SOURCE = "operator"
"""The principal that may write the calendar (docs/guides/kafka.md)."""


def parse(arguments: Sequence[str] | None = None) -> tuple[str, EventScheduled]:
    """The broker, and the entry of the calendar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap", help="host:port of a broker")
    parser.add_argument("name", help="of the campaign; a second entry of a name replaces the first")
    parser.add_argument("domains", help="separated by commas")
    parser.add_argument("starts_at", help="RFC 3339, in UTC")
    parser.add_argument("ends_at")
    parser.add_argument("factor", type=float, help="expected traffic over the usual")
    parser.add_argument("--cancel", action="store_true")
    given = parser.parse_args(arguments)
    entry = EventScheduled(
        name=given.name,
        domains=given.domains.split(","),
        starts_at=given.starts_at,
        ends_at=given.ends_at,
        expected_factor=given.factor,
        cancelled=given.cancel,
    )
    return given.bootstrap, entry


def main(arguments: Sequence[str] | None = None) -> None:
    """Publish one entry and wait until the broker has it."""
    bootstrap, entry = parse(arguments)
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    # The codec validates the entry and adds the CloudEvents headers.
    for record in encode(entry, SOURCE):
        sent = producer.send(
            record.topic, key=record.key, value=record.value, headers=list(record.headers)
        )
        sent.get(timeout=10)
    producer.close()
    print(f"{'cancelled' if entry.cancelled else 'announced'} {entry.name}")


if __name__ == "__main__":
    main()

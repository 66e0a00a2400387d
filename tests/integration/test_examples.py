"""The examples of docs/examples that talk to Kafka, as scripts on a real broker."""

import json
import subprocess

import msgspec

from schemas import generate
from schemas.budget_granted import BudgetGranted
from schemas.codec import decode, encode
from schemas.event_scheduled import EventScheduled
from services._kit.kafka_python import KafkaConsumer, KafkaProducer
from services.devcluster.connect import Running
from tests.example_files import command

SALE = "2027-03-20T18:00:00Z", "2027-03-20T20:00:00Z", "2.5"


def granted(domain: str, epoch: int) -> BudgetGranted:
    example = json.loads((generate.FOLDER / "examples/hirl.budget-granted.v1.json").read_text())
    return msgspec.convert(example | {"domain": domain, "epoch": epoch}, BudgetGranted)


def test_the_subscriber_prints_budgets_and_skips_older_epochs(kafka: Running) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
    domain = "domain-of-the-example"
    for epoch in (7, 6, 8):
        for record in encode(granted(domain, epoch), "commander"):
            producer.send(
                record.topic, key=record.key, value=record.value, headers=list(record.headers)
            )
    producer.flush()
    with subprocess.Popen(
        command("budget_subscriber", kafka.bootstrap), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            # Other tests may have left budgets of other domains on the topic.
            lines = (line for line in process.stdout if line.startswith(domain))
            shown = [next(lines), next(lines)]
        finally:
            process.kill()
    assert ["epoch 7" in shown[0], "epoch 8" in shown[1]] == [True, True]
    assert shown[0].startswith(f"{domain} may hold ")


def test_the_publisher_announces_and_cancels_an_event(kafka: Running) -> None:
    announce = command("calendar_publisher", kafka.bootstrap, "example-sale", "payments", *SALE)
    for arguments in (announce, [*announce, "--cancel"]):
        subprocess.run(arguments, check=True, capture_output=True, timeout=60)
    consumer = KafkaConsumer(
        "hirl.event-scheduled.v1",
        bootstrap_servers=kafka.bootstrap,
        auto_offset_reset="earliest",
        consumer_timeout_ms=10_000,
    )
    entries = []
    for record in consumer:
        if record.key == b"example-sale":
            entries.append(decode(record.topic, record.value, record.headers))
        if len(entries) == 2:
            break
    consumer.close()
    announced, cancelled = entries
    assert isinstance(announced, EventScheduled)
    assert announced.domains == ["payments"]
    assert announced.expected_factor == 2.5
    assert isinstance(cancelled, EventScheduled)
    assert cancelled == msgspec.structs.replace(announced, cancelled=True)

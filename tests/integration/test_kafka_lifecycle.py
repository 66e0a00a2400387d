"""`hirl kafka up`, `status` and `down` on a real broker."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from models.inputs.errors import InputError
from services._kit.kafka_python import KafkaConsumer, KafkaProducer
from services.cli.main import app_of
from services.devcluster.connect import Running
from services.devcluster.kafka import cluster, provision

TOPIC = "hirl.transition-recorded.v1"


def _hirl_kafka(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(
        app_of(lambda name: name.startswith("kafka")), ["kafka", *arguments]
    )
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def test_up_on_a_running_cluster_says_so_and_starts_nothing(kafka: Running) -> None:
    code, output = _hirl_kafka("up", "--home", str(kafka.home))
    assert code == 0
    assert "was already running" in output
    assert kafka.bootstrap in output
    assert kafka.cluster.cluster_id in output
    assert cluster.running(kafka.home) == kafka.cluster


def test_up_refuses_another_kind_of_cluster_over_existing_data(kafka: Running) -> None:
    with pytest.raises(InputError, match=r"1 broker\(s\), plain.*--wipe"):
        _hirl_kafka("up", "--secure", "--home", str(kafka.home))
    with pytest.raises(InputError, match="stop it first"):
        _hirl_kafka("up", "--port", "20000", "--home", str(kafka.home))


def test_a_record_survives_down_and_up(kafka: Running, tmp_path: Path) -> None:
    with KafkaProducer(**kafka.options(), acks="all") as producer:
        written = producer.send(TOPIC, key=b"soldier", value=b"a record").get(10)

    status = tmp_path / "status.json"
    home = ("--home", str(kafka.home))
    assert _hirl_kafka("down", *home) == (0, "stopped 1 broker(s)\n")
    assert _hirl_kafka("down", *home) == (0, "no broker was running\n")
    assert _hirl_kafka("status", *home, "--json", str(status))[0] == 1
    assert json.loads(status.read_text())["up"] == 0
    assert _hirl_kafka("up", *home)[0] == 0
    assert _hirl_kafka("status", *home, "--json", str(status))[0] == 0
    assert json.loads(status.read_text())["bootstrap"] == kafka.bootstrap

    with KafkaConsumer(
        TOPIC, **kafka.options(), auto_offset_reset="earliest", consumer_timeout_ms=10_000
    ) as consumer:
        read = next(consumer)
    assert (read.partition, read.offset) == (written.partition, written.offset)
    assert (read.key, read.value) == (b"soldier", b"a record")


def test_every_port_of_a_broker_is_on_loopback(kafka: Running) -> None:
    running = cluster.running(kafka.home)
    assert running is not None
    node = running.nodes[0]
    inodes = {
        link.readlink().name
        for link in Path(f"/proc/{node.pid}/fd").iterdir()
        if link.is_symlink() and str(link.readlink()).startswith("socket:")
    }
    rows = [
        row.split()
        for table in ("tcp", "tcp6")
        for row in Path(f"/proc/{node.pid}/net/{table}").read_text().splitlines()[1:]
    ]
    # Columns of /proc/net/tcp: 1 the local address, 3 the state (0A: listening), 9 the inode.
    listening = [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in inodes]
    assert len(listening) == 2
    # 127.0.0.1, as IPv4 and as an IPv4 address in IPv6.
    assert all(address.split(":")[0].endswith("0100007F") for address in listening)


def test_without_java_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(InputError, match=r"install openjdk-17-jre-headless.*--bus memory"):
        provision.java()


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_401"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("no version", 0),
    ],
)
def test_the_version_of_java_is_parsed(output: str, version: int) -> None:
    assert provision.java_version(output) == version

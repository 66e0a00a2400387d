"""Fenced producers without a broker: aiokafka's producer is replaced."""

import asyncio
from typing import Any, ClassVar

import pytest
from aiokafka.errors import (
    InvalidTxnState,
    KafkaError,
    NodeNotReadyError,
    ProducerFenced,
    TransactionalIdAuthorizationFailed,
)

from services._kit import transactions
from services._kit.transactions import Fenced, FencedProducer, Lanes, NoTransactions, Outgoing

RECORD = Outgoing("topic", b"key", b"value", ())


class Producer:
    """Records what is asked of it; raises `errors` by the name of the call."""

    made: ClassVar[list["Producer"]] = []
    errors: ClassVar[dict[str, BaseException]] = {}

    def __init__(self, **options: Any) -> None:
        self.id = options["transactional_id"]
        self.calls: list[str] = []
        self.made.append(self)

    async def start(self) -> None:
        self._call("start")

    async def stop(self) -> None:
        self._call("stop")

    async def begin_transaction(self) -> None:
        self._call("begin")

    async def send(self, topic: str, *_: object, **__: object) -> asyncio.Future[None]:
        del topic
        sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            self._call("send")
            sent.set_result(None)
        except KafkaError as error:
            sent.set_exception(error)
        await asyncio.sleep(0)  # another key may want to begin meanwhile
        return sent

    async def commit_transaction(self) -> None:
        self._call("commit")

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if name in self.errors:
            raise self.errors[name]


@pytest.fixture(autouse=True)
def no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "AIOKafkaProducer", Producer)
    monkeypatch.setattr(Producer, "made", [])
    monkeypatch.setattr(Producer, "errors", {})


def wrapped(cause: Exception) -> KafkaError:
    error = KafkaError("Unexpected error during batch delivery")
    error.__cause__ = cause
    return error


async def _commit(count: int = 1) -> None:
    producer = FencedProducer("hirl-soldier-3", {})
    await producer.start()
    await asyncio.gather(*(producer.commit([RECORD]) for _ in range(count)))


def test_two_keys_of_a_partition_commit_one_after_the_other() -> None:
    asyncio.run(_commit(2))
    (producer,) = Producer.made
    assert producer.calls == ["start", *["begin", "send", "commit"] * 2]


@pytest.mark.parametrize("call", ["begin", "send", "commit"])
@pytest.mark.parametrize("error", [ProducerFenced(), wrapped(InvalidTxnState())])
def test_a_fenced_producer_stops_the_service_with_one_line_that_names_the_partition(
    call: str, error: KafkaError
) -> None:
    Producer.errors[call] = error
    with pytest.raises(Fenced, match="took over hirl-soldier-3") as fenced:
        asyncio.run(_commit())
    assert "\n" not in str(fenced.value)


def test_nothing_is_committed_if_a_record_was_not_acknowledged() -> None:
    Producer.errors["send"] = NodeNotReadyError()
    with pytest.raises(NodeNotReadyError):
        asyncio.run(_commit())
    assert "commit" not in Producer.made[0].calls


def test_after_a_failure_nothing_more_is_sent_for_the_partition() -> None:
    async def commit_twice() -> None:
        producer = FencedProducer("hirl-soldier-3", {})
        with pytest.raises(Fenced):
            await producer.commit([RECORD])
        with pytest.raises(KafkaError, match="an earlier transaction failed"):
            await producer.commit([RECORD])

    Producer.errors["commit"] = ProducerFenced()
    asyncio.run(commit_twice())
    assert Producer.made[0].calls == ["begin", "send", "commit"]


def test_without_the_right_to_an_id_one_line_says_what_to_do() -> None:
    Producer.errors["start"] = TransactionalIdAuthorizationFailed("hirl-soldier-3")
    with pytest.raises(NoTransactions, match="hirl-soldier-3: run `hirl topics apply --acls`"):
        asyncio.run(_commit())


def test_a_broker_without_a_coordinator_is_not_waited_for_without_limit() -> None:
    # As asyncio.timeout raises it.
    Producer.errors["start"] = TimeoutError()
    with pytest.raises(NoTransactions, match=r"transaction\.state\.log\.replication\.factor"):
        asyncio.run(_commit())


async def _own(lanes: Lanes, *assignments: list[int]) -> None:
    for partitions in assignments:
        await lanes.own(partitions)


def test_each_assignment_fences_the_owners_before_it_and_closes_its_own_earlier_producers() -> None:
    lanes = Lanes("soldier", {}, by_domain=True)
    asyncio.run(_own(lanes, [0, 1], [1]))
    assert [(one.id, one.calls) for one in Producer.made] == [
        ("hirl-soldier-0", ["start", "stop"]),
        ("hirl-soldier-1", ["start", "stop"]),
        ("hirl-soldier-1", ["start"]),
    ]


def test_a_state_of_the_cluster_has_one_owner_whatever_the_partitions() -> None:
    lanes = Lanes("commander", {}, by_domain=False)

    async def commit() -> None:
        await lanes.own([0, 1, 2])
        await lanes.commit(2, [RECORD])

    asyncio.run(commit())
    (producer,) = Producer.made
    assert (producer.id, producer.calls[-1]) == ("hirl-commander-cluster", "commit")


def test_nothing_is_written_for_a_partition_that_is_not_owned() -> None:
    lanes = Lanes("soldier", {}, by_domain=True)

    async def commit() -> None:
        await lanes.own([0])
        await lanes.disown()
        await lanes.commit(0, [RECORD])

    with pytest.raises(KeyError):
        asyncio.run(commit())
    assert "begin" not in Producer.made[0].calls

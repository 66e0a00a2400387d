"""The arithmetic of `hirl bench size` on timestamps and saved states."""

from collections import Counter
from collections.abc import Iterator
from io import StringIO
from random import Random
from typing import Any, Self

import pytest
from rich.console import Console

from models.inputs.errors import InputError
from schemas.scale_applied import ScaleApplied
from services._kit.records import Delivery
from services._kit.state_records import state_records
from services.admin.reader import ReadRecord
from services.cli.benchmarks import size as command
from services.measure import size
from services.measure.path import WARM_UP_TICKS as WARM_UP
from services.measure.stamps import Stamp, TickTimes


class Topic:
    """A state topic, instead of one on Kafka."""

    def __init__(self, *saves: tuple[str, bytes]) -> None:
        self._saves = saves

    def __call__(self, options: dict[str, Any]) -> "Topic":
        del options
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def stream_to_end(self, topics: list[str]) -> Iterator[ReadRecord]:
        for key, data in self._saves:
            for name, record in state_records(key, data).items():
                headers = list(record.headers)
                yield ReadRecord(
                    None, Delivery(topics[0], 0, 0, name.encode(), record.value, headers, 0.0)
                )


def largest(monkeypatch: pytest.MonkeyPatch, *saves: tuple[str, bytes]) -> size.StateSize | None:
    monkeypatch.setattr(size, "TopicReader", Topic(*saves))
    return size._largest({}, "soldier")


def test_the_largest_save_counts_with_all_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    large = Random(0).randbytes(2_500_000)
    found = largest(monkeypatch, ("a", b"small"), ("b", large), ("b", b"later"), ("a", b"small"))
    assert found is not None
    assert (found.key, found.parts, found.newest_bytes) == ("b", 3, 5)
    assert found.sent_bytes == sum(len(one.value) for one in state_records("b", large).values())


def test_a_service_without_states_has_no_size(monkeypatch: pytest.MonkeyPatch) -> None:
    assert largest(monkeypatch, ("!failures/x", b"3 1.0")) is None


def times(*ticks: int) -> dict[int, TickTimes]:
    """A tick lasts 2 s, of which the path takes 1."""
    return {
        tick: TickTimes(2 * tick, 2 * tick + 0.5, 2 * tick + 0.8, 2 * tick + 1) for tick in ticks
    }


def test_a_tick_lasts_from_one_closing_to_the_next() -> None:
    figures = size._tick_figures(times(*range(WARM_UP - 1, WARM_UP + 3)), 3)
    assert figures["tick_s"] == {"p50": 2.0, "p99": 2.0, "max": 2.0}
    assert figures["sample_to_applied_s"]["p50"] == 1.0


def test_a_tick_that_did_not_complete_the_path_is_an_error() -> None:
    with pytest.raises(InputError, match="not every tick"):
        size._tick_figures(times(WARM_UP - 1, WARM_UP, WARM_UP + 2), 3)


def test_outcomes_are_counted_while_events_pass_by() -> None:
    names = ("replicas", "cpu_request", "memory_request", "replicas_before")
    columns: dict[str, Any] = {name: [1, 1] for name in names}
    event = ScaleApplied(
        tick=1, time="2026-11-27T00:00:00Z", domain="a", decision_id="d", epoch=-1,
        apps=["a", "b"], reasons=["", ""], outcomes=["applied", "held"], **columns,
    )  # fmt: skip
    outcomes: Counter[str] = Counter()
    assert len(list(size._counted(iter([Stamp(event, 0.0)] * 2), outcomes))) == 2
    assert outcomes == {"applied": 2, "held": 2}


def test_all_figures_are_printed() -> None:
    console = Console(width=200, record=True, file=StringIO())
    payload = {
        "apps": 62_000,
        "load": [1.0, 2.0],
        **size._tick_figures(times(*range(WARM_UP - 1, WARM_UP + 3)), 3),
        "dead_letters": 0,
        "services": {"soldier": size.Cost(0.5, 300.0)},
        "states": [
            size.StateSize(
                service="soldier", key="merchant", sent_bytes=2_000_000, parts=2, newest_bytes=9
            )
        ],
        "restarts": {"soldier": size.Restart(4.5, 3.5, 7.5)},
    }
    command.show(console, payload)
    printed = console.export_text()
    for figure in (
        "0.5",
        "2,000,000",
        "4.5",
        "3.5",
        "7.5",
        "1.0 s p50",
        "62,000 apps",
        "0 dead letters",
    ):
        assert figure in printed

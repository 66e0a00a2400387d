"""A process ends when a file that it has read once is another one."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from services._kit.watched import Watched


async def _stops(watched: Watched, change: Callable[[], object]) -> bool:
    stop = asyncio.Event()
    watching = asyncio.create_task(watched.changed(stop))
    await asyncio.sleep(0)
    change()
    for _ in range(5):
        await asyncio.sleep(0.001)
    watching.cancel()
    return stop.is_set()


@pytest.mark.parametrize("first", [None, "domains: [a]"])
@pytest.mark.parametrize("then", [None, "domains: [a]", "domains: [b]"])
def test_it_ends_when_the_file_is_another_one_came_or_is_gone(
    tmp_path: Path, first: str | None, then: str | None
) -> None:
    file = tmp_path / "domains.yaml"

    def write(text: str | None) -> None:
        file.unlink(missing_ok=True) if text is None else file.write_text(text)

    write(first)
    watched = Watched(str(file), pause_s=0.0)
    assert asyncio.run(_stops(watched, lambda: write(then))) == (first != then)


def test_it_stays_while_the_file_cannot_be_read_and_where_none_is_named(tmp_path: Path) -> None:
    file = tmp_path / "domains.yaml"
    file.write_text("domains: [a]")
    watched = Watched(str(file), pause_s=0.0)

    def replace_by_folder() -> None:
        file.unlink()
        file.mkdir()

    assert not asyncio.run(_stops(watched, replace_by_folder))
    assert not asyncio.run(_stops(Watched("", pause_s=0.0), lambda: None))

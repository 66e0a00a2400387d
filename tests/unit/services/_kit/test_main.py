"""A process ends in good order when its domains change, to be started again."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from services._kit import main
from services._kit.watched import Watched


class _Settings(msgspec.Struct, frozen=True):
    cluster: str = ""


def test_a_service_ends_without_an_error_when_its_domains_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "domains.yaml"
    worked: list[bool] = []

    async def work(*parts: Any) -> None:
        file.write_text("domains: []")
        await asyncio.wait_for(parts[-1].wait(), 5)
        worked.append(True)

    class Played:
        name = "breaker"

    monkeypatch.setattr(main, "_work", work)
    monkeypatch.setattr(main, "Watched", partial(Watched, pause_s=0.01))
    monkeypatch.setattr(main, "_service", lambda _: type("S", (), {"handler": Played()})())
    monkeypatch.setenv("HIRL_DOMAINS", str(file))
    assert main.run("breaker", lambda *_: None, _Settings, []) == 0  # type: ignore[arg-type]
    assert worked == [True]

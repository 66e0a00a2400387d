"""The whole system without a broker, followed as `hirl up --bus memory` follows it."""

from io import StringIO

from rich.console import Console

from services.cli.system.follow import follow_memory
from services.cli.system.view import PlainView
from services.devcluster.memory import memory_system
from services.devcluster.request import Request
from tests.e2e.scenarios import FIVE_MINUTES, TICKS, written


def test_a_scenario_runs_to_its_end_and_is_reported() -> None:
    console = Console(file=StringIO(), width=200)
    with written(FIVE_MINUTES) as path:
        request = Request(scenario=str(path), seed=3, apps=60, lock_step=True)
        system, simulation = memory_system(request, console.print)
        results = follow_memory(system, simulation, PlainView(console, simulation), tick_s=0.0)
    assert results.finished
    assert results.tick == TICKS
    assert results.rows[0].budget_overruns == 0
    assert system.bus.dead_letters == []
    assert isinstance(console.file, StringIO)
    assert "five-minutes, 60 apps, seed 3, lock-step" in console.file.getvalue()

"""Every command with its line in `hirl --help`. One is loaded when it is called for.

The models and their compiler take seconds to import, and most commands need none of them.
"""

# ruff: noqa: PLC0415  to import late is what this file is for

from collections.abc import Callable
from typing import Final, NamedTuple

import typer


class Entry(NamedTuple):
    """A command or a group of commands."""

    line: str
    """What the help of `hirl` says of it: the first line of its own."""
    add: Callable[[typer.Typer], None]
    """Import it and make it a command of the app."""


def assemble(app: typer.Typer, wanted: Callable[[str], bool]) -> None:
    """Add all commands to the app: as they are where wanted, the others by name and line only."""
    for name, entry in COMMANDS.items():
        if wanted(name):
            entry.add(app)
        else:
            app.command(name=name, help=entry.line)(_not_loaded)


def _not_loaded() -> None:
    raise AssertionError("what is called for is loaded first")


def _simulate(app: typer.Typer) -> None:
    from services.cli.simulation import simulate

    app.command(epilog=simulate.EXAMPLES)(simulate.simulate)


def _race(app: typer.Typer) -> None:
    from services.cli.comparison import race as command

    app.command(epilog=command.EXAMPLES)(command.race)


def _up(app: typer.Typer) -> None:
    from services.cli.system import up as command

    app.command(epilog=command.EXAMPLES)(command.up)


def _status(app: typer.Typer) -> None:
    from services.cli.system import status as running

    app.command(epilog=running.STATUS_EXAMPLES)(running.status)


def _down(app: typer.Typer) -> None:
    from services.cli.system import status as running

    app.command(epilog=running.DOWN_EXAMPLES)(running.down)


def _tail(app: typer.Typer) -> None:
    from services.cli.bus import tail

    app.command(epilog=tail.EXAMPLES)(tail.tail)


def _explain(app: typer.Typer) -> None:
    from services.cli.bus import explain

    app.command(epilog=explain.EXAMPLES)(explain.explain)


def _calibrate(app: typer.Typer) -> None:
    from services.cli.comparison import calibrate

    app.command(name="calibrate", epilog=calibrate.EXAMPLES)(calibrate.calibrate_command)


def _forecast(app: typer.Typer) -> None:
    from services.cli.forecast import one_shot

    app.command(epilog=one_shot.EXAMPLES)(one_shot.forecast)


def _train(app: typer.Typer) -> None:
    from services.cli.forecast import corrector, train

    train.app.command(epilog=corrector.EXAMPLES)(corrector.corrector)
    app.add_typer(train.app, name="train")


def _world(app: typer.Typer) -> None:
    from services.cli.simulation import world

    app.add_typer(world.app, name="world")


def _bench(app: typer.Typer) -> None:
    from services.cli.benchmarks import speed as bench

    app.add_typer(bench.app, name="bench")


def _hpa(app: typer.Typer) -> None:
    from services.cli.comparison import hpa

    app.add_typer(hpa.app, name="hpa")


def _schemas(app: typer.Typer) -> None:
    from services.cli.bus import schemas

    app.add_typer(schemas.app, name="schemas")


def _kafka(app: typer.Typer) -> None:
    from services.cli.bus import kafka as command

    app.add_typer(command.app, name="kafka")


def _topics(app: typer.Typer) -> None:
    from services.cli.bus import topics

    app.add_typer(topics.app, name="topics")


COMMANDS: Final[dict[str, Entry]] = {
    "simulate": Entry(
        "Run one scenario under one controller and watch it; ends with the table of its figures.",
        _simulate,
    ),
    "race": Entry(
        "Run controllers side by side: the same scenario and seed, in lock-step, live.",
        _race,
    ),
    "up": Entry(
        "Start the whole system on a simulated cluster: Kafka, every service, and a live view.",
        _up,
    ),
    "status": Entry(
        "Show what runs, how far behind it is and how far the scenario has come; "
        "exit 1 if not all.",
        _status,
    ),
    "down": Entry(
        "Stop everything that `hirl up` started here, and nothing else. Logs stay, records go.",
        _down,
    ),
    "tail": Entry("Follow a topic until Ctrl-C: time, key, and what each event says.", _tail),
    "explain": Entry(
        "Say why an app has the replicas it has: seen, forecast, granted, needed, planned, done.",
        _explain,
    ),
    "calibrate": Entry(
        "Tune controllers on scenarios of their own, all by the same search and objective.",
        _calibrate,
    ),
    "forecast": Entry(
        "Forecast the minutes 5, 15 and 30 minutes ahead, with 80 % intervals and the peak.",
        _forecast,
    ),
    "train": Entry("Train models; needs the environment of `make train-env`.", _train),
    "world": Entry("Look at the simulated cluster itself.", _world),
    "bench": Entry("Measure speed, and compare controllers.", _bench),
    "hpa": Entry("The Horizontal Pod Autoscaler and its exactness.", _hpa),
    "schemas": Entry("The events on the bus: contracts and their speed.", _schemas),
    "kafka": Entry("A real Apache Kafka on this machine, under .hirl/kafka.", _kafka),
    "topics": Entry("Topics, their settings and ACLs on a Kafka cluster.", _topics),
}

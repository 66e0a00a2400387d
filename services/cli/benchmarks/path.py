"""`hirl bench path`: the way from a sample to a change over a real Kafka, and what it costs."""

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console

from services.cli.benchmarks import path_tables as tables
from services.cli.options import JsonOption
from services.cli.output import progress, write_json

if TYPE_CHECKING:
    from services.devcluster.request import Request
    from services.measure.codec import Cost

EXAMPLE: Final = (
    "Example: [bold]hirl bench path --apps 1550 --minutes 3 --json .hirl/bench-path.json[/bold]"
)
_SCENARIO: Final = "flash-sale-20-min-early"
_ADAPTERS: Final = ("faust", "plain")
_FOLDER: Final = Path(".hirl")

AppsOption = Annotated[int, typer.Option("--apps", min=5, metavar="N", help="Apps in the cluster.")]
MinutesOption = Annotated[
    int, typer.Option("--minutes", min=1, metavar="N", help="Real time measured, per adapter.")
]
MaxAppsOption = Annotated[
    bool,
    typer.Option(
        "--max-apps", help="Look for the most apps of which every tick closes within 10 s, too."
    ),
]


def path(
    apps: AppsOption = 1550,
    minutes: MinutesOption = 3,
    max_apps: MaxAppsOption = False,
    json: JsonOption = None,
) -> None:
    """Time from a tick's last sample to its last change, in real time, a process per service.

    Beside it: CPU and memory of each service, the same without Faust, what events cost to encode
    and decode, and how many samples of pods one aggregator takes. Needs Linux, for /proc.
    """
    # Kafka's clients are slow to import, and only where services run.
    from services.devcluster.kafka import provision  # noqa: PLC0415
    from services.devcluster.request import Request  # noqa: PLC0415

    console = Console(emoji=False, highlight=False)
    provision.runtime(console)
    request = Request(scenario=_SCENARIO, apps=apps)
    request.check()
    _FOLDER.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="path-", dir=_FOLDER))
    payload = _measured(request, minutes, max_apps, folder, console)
    tables.show(console, payload)
    if json is not None:
        write_json(json, payload)
    # Kept when something went wrong, for its logs.
    shutil.rmtree(folder, ignore_errors=True)


def _measured(
    request: "Request", minutes: int, max_apps: bool, folder: Path, console: Console
) -> dict[str, Any]:
    from services.measure import codec, growth, latency, samples  # noqa: PLC0415

    runs = {}
    for adapter in _ADAPTERS:
        with progress(f"{adapter}, {minutes} min of real time", 1, console):
            runs[adapter] = latency.measure(request, adapter, minutes, folder / adapter)
    rates = {}
    for per_record in (samples.BATCHED, samples.SINGLE):
        with progress(f"samples, {per_record} a record", 1, console):
            where = folder / f"samples-{per_record}"
            rates[per_record] = samples.measure(request, per_record, where)
    rows: list[dict[str, Any]] = []
    if max_apps:
        with progress("growing", 1, console):
            rows = growth.measure(request, folder / "growth")
    figures = runs[_ADAPTERS[0]].figures
    return {
        "apps": request.apps,
        "scenario": request.scenario,
        "sample_to_applied_ms": figures["sample_to_applied_ms"],
        "control_plane_cores": figures["control_plane_cores"],
        "services": figures["services"],
        "max_apps_per_tick": growth.largest(rows) if rows else None,
        "samples_per_s": rates[samples.BATCHED].samples_per_s,
        "adapters": {name: run.figures for name, run in runs.items()},
        "faust_over_plain": _ratios(*(runs[name].figures for name in _ADAPTERS)),
        "samples": list(rates.values()),
        "by_apps": rows,
        "codec": _codec(codec.costs(runs[_ADAPTERS[0]].tick)),
    }


def _ratios(faust: dict[str, Any], plain: dict[str, Any]) -> dict[str, float]:
    """What Faust costs, as factors."""
    both = faust["sample_to_applied_ms"], plain["sample_to_applied_ms"]
    return {
        "p50": both[0]["p50"] / both[1]["p50"],
        "p99": both[0]["p99"] / both[1]["p99"],
        "cores": faust["control_plane_cores"] / plain["control_plane_cores"],
        "rss": faust["control_plane_rss_mb"] / plain["control_plane_rss_mb"],
    }


def _codec(found: "list[Cost]") -> list[dict[str, Any]]:
    names = ("event", "readers", "records", "kib", "encode_ms", "decode_ms", "tick_ms")
    return [{name: getattr(cost, name) for name in names} for cost in found]

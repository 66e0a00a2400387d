"""`hirl bench path`: latency from sample to change over a real Kafka, and its cost."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console

from models.inputs.errors import InputError
from services._kit.clock import rfc3339
from services.cli.benchmarks.on_kafka import SCENARIO, AppsOption, measurement_folder
from services.cli.commands import examples
from services.cli.models.options import KeysOption, Place, StoreOption
from services.cli.options import ClusterOption, JsonOption, PhysicsOption
from services.cli.output import Cell, progress, table, write_json

if TYPE_CHECKING:
    from services.devcluster.request import Request
    from services.measure.path import Deciding

WITH_MODELS: Final = "faust, models"
_ADAPTERS: Final = ("faust", "plain")
_CODEC_COLUMNS: Final = (
    "event", "readers", "records", "kib", "encode_ms", "decode_ms", "tick_ms",
)  # fmt: skip

MinutesOption = Annotated[
    int, typer.Option("--minutes", min=1, metavar="N", help="Real time measured, per adapter.")
]
MaxAppsOption = Annotated[
    bool,
    typer.Option(
        "--max-apps", help="Also find the most apps with which every tick closes within 10 s."
    ),
]


@examples("hirl bench path --apps 1550 --minutes 3 --json .hirl/bench-path.json")
def path(
    apps: AppsOption = 1550,
    minutes: MinutesOption = 3,
    max_apps: MaxAppsOption = False,
    cluster: ClusterOption = None,
    physics: PhysicsOption = None,
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model", metavar="VERSION", help="Also with this model of the store; repeatable."
        ),
    ] = None,
    store: StoreOption = None,
    keys: KeysOption = None,
    json: JsonOption = None,
) -> None:
    """Time from a tick's last sample to its last change, in real time, a process per service.

    It also measures CPU and memory of each service, the same without Faust, the cost to encode
    and decode events, and how many pod samples one aggregator handles. With --model it runs once
    more with these models deciding.
    """
    # Kafka's clients are slow to import, and help texts need none.
    from services.devcluster.request import Request  # noqa: PLC0415

    console = Console(emoji=False, highlight=False)
    request = Request(scenario=SCENARIO, apps=apps, cluster=cluster, physics=physics)
    request.check()
    deciding = _deciding(Place(store, keys), models) if models else None
    with measurement_folder("path", console) as folder:
        payload = _measure(request, minutes, max_apps, folder, console, deciding)
        show(console, payload)
        if json is not None:
            write_json(json, payload)


def _deciding(place: Place, names: list[str]) -> "Deciding":
    from schemas.model_promoted import ModelPromoted  # noqa: PLC0415  as above
    from services.admin.promotions import KEYS  # noqa: PLC0415
    from services.measure.path import Deciding  # noqa: PLC0415

    if place.keys is None:
        raise InputError("--keys: expected the public key that services trust (HIRL_MODEL_KEYS)")
    url, found = place.opened().url, [place.artefact(name) for name in names]
    orders = [
        ModelPromoted(
            # A return: at once, so that they decide from the first ticks on.
            model=KEYS[one.manifest.kind], version=one.name, sha256=one.version, uri=url,
            status="rolled-back", promoted_at=rfc3339(time.time()), reason="a measurement",
        )
        for one in found
    ]  # fmt: skip
    # Services have another working directory.
    store = url if "://" in url else str(Path(url).resolve())
    environment = {"HIRL_MODEL_STORE": store, "HIRL_MODEL_KEYS": str(place.keys.resolve())}
    return Deciding(orders, environment)


def _measure(
    request: "Request",
    minutes: int,
    max_apps: bool,
    folder: Path,
    console: Console,
    deciding: "Deciding | None",
) -> dict[str, Any]:
    from services.measure import codec, samples  # noqa: PLC0415
    from services.measure import path as measured_path  # noqa: PLC0415

    runs = {}
    # One after the other: together they would compete for the cores that are measured.
    for adapter in _ADAPTERS:
        with progress(f"{adapter}, {minutes} min of real time", 1, console):
            runs[adapter] = measured_path.measure(request, adapter, minutes, folder / adapter)
    if deciding is not None:
        with progress(f"with models, {minutes} min of real time", 1, console):
            runs[WITH_MODELS] = measured_path.measure(
                request, _ADAPTERS[0], minutes, folder / "models", deciding
            )
    # In large batches and one by one: the cost per record shows in the difference.
    rates = {}
    for per_record in (samples.BATCHED, samples.SINGLE):
        with progress(f"samples, {per_record} a record", 1, console):
            run_folder = folder / f"samples-{per_record}"
            rates[per_record] = samples.measure(request, per_record, run_folder)
    rows: list[dict[str, Any]] = []
    if max_apps:
        with progress("growing", 1, console):
            rows = measured_path.measure_sizes(request, folder / "growth")
    # The headline is of Faust, which the services run on.
    figures = runs[_ADAPTERS[0]].figures
    costs = codec.costs(runs[_ADAPTERS[0]].tick)
    return {
        "apps": request.apps,
        "scenario": request.scenario,
        "sample_to_applied_ms": figures["sample_to_applied_ms"],
        "control_plane_cores": figures["control_plane_cores"],
        "services": figures["services"],
        "max_apps_per_tick": measured_path.largest(rows) if rows else None,
        "samples_per_s": rates[samples.BATCHED].samples_per_s,
        "adapters": {name: run.figures for name, run in runs.items()},
        "faust_over_plain": _ratios(*(runs[name].figures for name in _ADAPTERS)),
        "samples": list(rates.values()),
        "by_apps": rows,
        "codec": [{name: getattr(cost, name) for name in _CODEC_COLUMNS} for cost in costs],
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


def show(console: Console, payload: dict[str, Any]) -> None:
    """Print all tables, and the headline last."""
    _latency(console, payload)
    _services(console, payload)
    _codec(console, payload)
    _samples(console, payload)
    if payload["by_apps"]:
        _sizes(console, payload)
    total = payload["sample_to_applied_ms"]
    console.print(
        f"[bold]{total['p50']:,.0f} ms p50, {total['p99']:,.0f} ms p99[/bold] "
        "from sample to change "
        f"with {payload['apps']:,} apps; control plane {payload['control_plane_cores']:.2f} "
        f"cores; {payload['samples_per_s']:,.0f} samples/s into one aggregator",
    )


def _latency(console: Console, payload: dict[str, Any]) -> None:
    rows: list[tuple[Cell, ...]] = []
    for name, run in payload["adapters"].items():
        hops = {"sample_to_applied": run["sample_to_applied_ms"], **run["by_hop_ms"]}
        rows += [(name, hop, one["p50"], one["p99"], one["max"]) for hop, one in hops.items()]
    first = next(iter(payload["adapters"].values()))
    title = (
        f"Latency of a tick, ms: {first['ticks']} ticks after {first['warm_up_ticks']} of warm-up "
        f"(compilation); until the {first['until']}"
    )
    console.print(table(title, ("adapter", "hop", "p50", "p99", "max"), rows))
    ratios = ", ".join(
        f"{name} x{ratio:.2f}" for name, ratio in payload["faust_over_plain"].items()
    )
    loads = "; ".join(
        f"{name} {run['load'][0]:.1f} to {run['load'][1]:.1f}"
        for name, run in payload["adapters"].items()
    )
    console.print(f"Faust over aiokafka alone: {ratios}; load of the machine: {loads}\n")


def _services(console: Console, payload: dict[str, Any]) -> None:
    runs = payload["adapters"]
    rows: list[tuple[Cell, ...]] = [
        (name, *(cell for run in runs.values() for cell in _usage(run["services"][name])))
        for name in payload["services"]
    ]
    columns = ("service", *(f"{run}, {what}" for run in runs for what in ("cores", "MB")))
    console.print(table("CPU and memory of each process", columns, rows))


def _usage(usage: Any) -> tuple[float, float]:
    return usage.cores, usage.rss_mb


def _codec(console: Console, payload: dict[str, Any]) -> None:
    rows = [tuple(row[name] for name in _CODEC_COLUMNS) for row in payload["codec"]]
    title = "Encoding and decoding all events of a tick that begins a minute"
    console.print(table(title, _CODEC_COLUMNS, rows))


def _samples(console: Console, payload: dict[str, Any]) -> None:
    rows: list[tuple[Cell, ...]] = [
        (rate.per_record, step.wanted_per_s, step.sent_per_s, step.left_at_end, step.cores,
         "yes" if step.kept_up else "no")
        for rate in payload["samples"]
        for step in rate.steps
    ]  # fmt: skip
    columns = ("samples a record", "target/s", "sent/s", "backlog at the end", "cores", "kept up")
    console.print(table("Pod samples into one aggregator process", columns, rows))


def _sizes(console: Console, payload: dict[str, Any]) -> None:
    rows: list[tuple[Cell, ...]] = [
        (
            row["apps"],
            row["tick_s"]["p50"] if "tick_s" in row else "",
            row["tick_s"]["max"] if "tick_s" in row else "",
            row["sample_to_applied_s"]["p50"] if "tick_s" in row else "",
            row.get("rss_mb", ""),
            "yes" if row["ok"] else row["why"],
        )
        for row in payload["by_apps"]
    ]
    columns = ("apps", "s per tick", "slowest", "sample to change, s", "MB", "within 10 s")
    console.print(table("Lock-step by size", columns, rows))

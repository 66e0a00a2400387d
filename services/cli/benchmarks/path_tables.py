"""The figures of `hirl bench path` for people."""

from typing import Any

from rich.console import Console

from services.cli.output import Cell, table


def show(console: Console, payload: dict[str, Any]) -> None:
    """Tables, and the headline last."""
    _way(console, payload)
    _services(console, payload)
    _codec(console, payload)
    _samples(console, payload)
    if payload["by_apps"]:
        _sizes(console, payload)
    way = payload["sample_to_applied_ms"]
    console.print(
        f"[bold]{way['p50']:,.0f} ms p50, {way['p99']:,.0f} ms p99[/bold] from sample to change "
        f"with {payload['apps']:,} apps; control plane {payload['control_plane_cores']:.2f} "
        f"cores; {payload['samples_per_s']:,.0f} samples/s into one aggregator",
    )


def _way(console: Console, payload: dict[str, Any]) -> None:
    rows: list[tuple[Cell, ...]] = []
    for name, run in payload["adapters"].items():
        hops = {"sample_to_applied": run["sample_to_applied_ms"], **run["by_hop_ms"]}
        rows += [(name, hop, one["p50"], one["p99"], one["max"]) for hop, one in hops.items()]
    first = next(iter(payload["adapters"].values()))
    title = (
        f"The way of a tick, ms: {first['ticks']} ticks, the first {first['warm_up_ticks']} left "
        f"out (compilation); until the {first['until']}"
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
        (name, *(cell for run in runs.values() for cell in _use(run["services"][name])))
        for name in payload["services"]
    ]
    columns = ("service", *(f"{run}, {what}" for run in runs for what in ("cores", "MB")))
    console.print(table("What each process takes", columns, rows))


def _use(use: Any) -> tuple[float, float]:
    return use.cores, use.rss_mb


def _codec(console: Console, payload: dict[str, Any]) -> None:
    names = ("event", "readers", "records", "kib", "encode_ms", "decode_ms", "tick_ms")
    rows = [tuple(row[name] for name in names) for row in payload["codec"]]
    title = "Encoding and decoding all events of a tick that begins a minute"
    console.print(table(title, names, rows))


def _samples(console: Console, payload: dict[str, Any]) -> None:
    rows: list[tuple[Cell, ...]] = [
        (rate.per_record, step.wanted_per_s, step.sent_per_s, step.left_at_end, step.cores,
         "yes" if step.kept_up else "no")
        for rate in payload["samples"]
        for step in rate.steps
    ]  # fmt: skip
    columns = ("samples a record", "wanted/s", "sent/s", "left at the end", "cores", "kept up")
    console.print(table("Samples of pods into one aggregator process", columns, rows))


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

"""A compiled scenario: which apps and nodes each event affects, when and how much."""

from typing import Final, NamedTuple

from numpy.typing import ArrayLike

from models.cluster.arrays import F32, I8, I16, I32, Records, records

TRAFFIC: Final = 0
"""The wave multiplies what arrives from outside."""
PAYLOAD: Final = 1
"""The wave multiplies the work per request."""

# Metrics pipelines that can fail, see `config.events.MetricsOutage`.
METRICS_SERVER: Final = 0
KUBELET: Final = 1
EXPORTER: Final = 2

# How they fail.
OUTAGE_MISSING: Final = 0
"""Samples do not arrive."""
OUTAGE_ZERO: Final = 1
"""Samples read zero, as from exporters that report zero on errors."""
OUTAGE_STALE: Final = 2
"""Samples repeat the last ones before the outage."""

LEAK: Final = 0
"""The app's pods leak memory."""
CRASH: Final = 1
"""The app's containers crash."""

APPEAR: Final = 0
VANISH: Final = 1
MOVE: Final = 2


class Overlays(NamedTuple):
    """Columns of a compiled scenario. E environments, A apps; times are ticks since warm-up began.

    The first seven columns are waves: `factor` rises linearly from 1 over `ramp` ticks after
    `start`, stays for `hold`, and falls back to 1 over `decay`. Waves on the same app multiply.
    """

    kind: I8
    """[K] TRAFFIC or PAYLOAD."""
    start: F32
    """[E, K] ticks."""
    ramp: F32
    """[K] ticks."""
    hold: F32
    """[K] ticks."""
    decay: F32
    """[K] ticks."""
    factor: F32
    """[E, K]."""
    app_weight: F32
    """[K, A] share of `factor` - 1 that applies to the app: 0 is none, 1 is all."""

    deploy_tick: I32
    """[E, A] tick at which a rolling deploy starts, -1 for none."""

    zone: I16
    """[Z] index of a lost zone."""
    zone_start: I32
    """[E, Z] ticks."""
    zone_end: I32
    """[E, Z] ticks."""

    reclaim_tick: I32
    """[E, R] ticks at which spot nodes are reclaimed."""
    reclaim_share: F32
    """[R] share of the spot nodes."""

    outage_pipeline: I8
    """[M] METRICS_SERVER, KUBELET or EXPORTER."""
    outage_mode: I8
    """[M] OUTAGE_MISSING, OUTAGE_ZERO or OUTAGE_STALE."""
    outage_start: I32
    """[E, M] ticks."""
    outage_end: I32
    """[E, M] ticks."""
    outage_app: I8
    """[M, A] 1 where the app's samples are affected."""

    fault_kind: I8
    """[F] LEAK or CRASH."""
    fault_start: I32
    """[E, F] ticks."""
    fault_end: I32
    """[E, F] ticks."""
    fault_size: F32
    """[F] of a leak: the memory request's share per hour; of crashes: of ready pods a minute."""
    fault_app: I8
    """[F, A] 1 where the app is affected."""

    inventory_kind: I8
    """[I] APPEAR, VANISH or MOVE."""
    inventory_tick: I32
    """[E, I] ticks."""
    inventory_app: I32
    """[I] app index."""
    inventory_domain: I16
    """[I] new domain of a MOVE, else -1."""

    replay_of: I32
    """[A] row of `replay` that shapes the app's traffic, -1 for its own profile."""
    replay: F32
    """[S, minutes] traffic over its mean, from 14 days before the start to the end."""


class Script(NamedTuple):
    """The overlays as kernels take them: one record per environment and event."""

    waves: Records
    """[E, K] kind, start, ramp, hold, decay, factor."""
    wave_weight: F32
    """[K, A]."""
    deploy_tick: I32
    """[E, A]."""
    zones: Records
    """[E, Z] zone, start, end."""
    reclaims: Records
    """[E, R] tick, share."""
    outages: Records
    """[E, M] pipeline, mode, start, end."""
    outage_app: I8
    """[M, A]."""
    faults: Records
    """[E, F] kind, start, end, size."""
    fault_app: I8
    """[F, A]."""
    inventory: Records
    """[E, I] kind, tick, app, domain."""
    replay_of: I32
    """[A]."""
    replay: F32
    """[S, minutes]."""


def script_of(overlays: Overlays) -> Script:
    """Combine the columns of each kind of event into records."""
    # Columns without environments are repeated, so that a kernel reads an event from one record.
    o = overlays
    waves: dict[str, ArrayLike] = {"kind": o.kind, "start": o.start, "ramp": o.ramp, "hold": o.hold}
    waves |= {"decay": o.decay, "factor": o.factor}
    inventory: dict[str, ArrayLike] = {"kind": o.inventory_kind, "tick": o.inventory_tick}
    inventory |= {"app": o.inventory_app, "domain": o.inventory_domain}
    outages: dict[str, ArrayLike] = {
        "pipeline": o.outage_pipeline,
        "mode": o.outage_mode,
        "start": o.outage_start,
        "end": o.outage_end,
    }
    faults: dict[str, ArrayLike] = {"kind": o.fault_kind, "start": o.fault_start}
    faults |= {"end": o.fault_end, "size": o.fault_size}
    zones: dict[str, ArrayLike] = {"zone": o.zone, "start": o.zone_start, "end": o.zone_end}
    reclaims: dict[str, ArrayLike] = {"tick": o.reclaim_tick, "share": o.reclaim_share}
    return Script(
        waves=records(waves, o.start.shape),
        wave_weight=o.app_weight,
        deploy_tick=o.deploy_tick,
        zones=records(zones, o.zone_start.shape),
        reclaims=records(reclaims, o.reclaim_tick.shape),
        outages=records(outages, o.outage_start.shape),
        outage_app=o.outage_app,
        faults=records(faults, o.fault_start.shape),
        fault_app=o.fault_app,
        inventory=records(inventory, o.inventory_tick.shape),
        replay_of=o.replay_of,
        replay=o.replay,
    )

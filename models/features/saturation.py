"""At which CPU use the pods of an app are full, learned from what they do.

Owners declare it, and are wrong by tens of percent. The declaration is where the estimate begins,
with its doubt. Pods are never full below a use that they have shown for a while. Where requests
wait while the CPU does not follow them, pods are as full as they get, whatever was declared. And
where usual requests are late at a use at which they never were in time, pods are full at that use.
A slow callee shows at any use.

All are recursive estimates with a gain by their doubt, in relative terms. They need no memory but
the last values. Without such evidence the estimate goes back to the declaration, within days. A new
declaration starts anew. Missing samples change nothing.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F32, I8, I32
from models.jit import kernel

PRIOR: Final = np.float32(0.2)
"""Standard deviation of a declaration, relative to the truth. Assumed: load tests run with other
requests, data and machines than production."""
_MOST: Final = np.float32(1.0)
"""CPU beyond the request comes from cores that others leave idle, and is not guaranteed. So pods
that have only their request are full at that request at the latest."""
_LEAST: Final = np.float32(0.05)
_SURE: Final = np.float32(0.02)
"""Doubt that always remains."""
_FORGET_S: Final = 86_400.0
"""Time in which doubt comes back, and the declaration counts again: a new version of an app may be
full at another use, and what seemed full may not have been."""
_NOISE: Final = np.float32(0.05)
"""Relative error of one sample of the CPU use."""
_FULL_NOISE: Final = np.float32(0.1)
"""Relative error of the use of pods that seem full: the window still has some time before."""
_ROOM: Final = np.float32(0.92)
"""Share of the use of full pods above which CPU no longer shows demand."""
_CLEAN: Final = np.float32(0.02)
"""Share of errors above which CPU no longer shows demand: failed requests cost less work."""
_LEARNING_S: Final = 100.0
"""Time constant of the work per request."""
_FALLING: Final = np.float32(-0.1)
"""Trend of the requests below which work per request is not learned upwards: an exporter that
breaks shows fewer and fewer requests over its window, for the same CPU."""
_LACKING: Final = np.float32(0.1)
"""Share of the requests for which pods did no work, from which they seem full."""
_PLAUSIBLE: Final = np.float32(0.6)
"""Share of the estimate from which pods may be full. Far below it, something else fails: a callee,
or the network."""
_WINDOW_S: Final = 60.0
"""How long pods have to seem full: before, the window shows a mix of before and after."""
_CARRIED_S: Final = 30.0
"""How long pods have to use more than the estimate: one count of pods may be wrong. A whole window,
or only samples without errors, lost much of what learning gains in a cascade."""
_USUAL: Final = np.float32(0.3)
"""Distance of the requests from their mean of minutes, relative to it, up to which they are as
usual. In a surge an app may be late at its highest use because a callee is full."""
_FEW: Final = np.float32(0.15)
"""Pods in flight over measured ones up to which lateness shows full pods: new pods are slow, and
lost ones leave the others full for a while."""
_IN_TIME_STEP: Final = np.float32(0.3)
"""Step towards a higher use at which requests were in time: one sample may be wrong."""
_LEAST_RPS: Final = np.float32(1e-3)
# float32, because a plain 0.0 in a kernel would turn the arithmetic around it into float64.
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
_CORES: Final = np.float32(0.001)
_FRESH: Final = np.int8(1)


class Pace(NamedTuple):
    """Weights of one tick."""

    learning: np.float32
    """In the work per request."""
    doubt: np.float32
    """Relative variance that a tick adds."""
    forgetting: np.float32
    """Of the declaration in the estimate."""
    window: np.int32
    """Ticks for which pods have to seem full."""
    carried: np.int32
    """Ticks for which pods have to use more than the estimate."""


class Full(NamedTuple):
    """What one environment knows about its apps, [A] each, updated in place."""

    declared: F32
    """Declaration from which the estimate began; 0 before the first tick."""
    full_at: F32
    """CPU use over request at which pods are full."""
    doubt: F32
    """Standard deviation of that estimate, relative to it."""
    work: F32
    """CPU seconds per request, learned while there was room; 0 before the first valid sample."""
    strained: I32
    """Ticks in a row in which pods seemed full; below 0 those in which they used more than the
    estimate."""
    peak: F32
    """Highest CPU use over request of the former ticks: when more pods come, the window still shows
    the strain for a while, at a use below the full one. Lowest of the latter."""
    in_time: F32
    """Highest CPU use over request at which requests were in time, of about a day; 0 before the
    first."""


def pace(tick_s: int) -> Pace:
    """The weights that belong to the time constants."""
    return Pace(
        np.float32(min(1.0, tick_s / _LEARNING_S)),
        np.float32(float(PRIOR) ** 2 * tick_s / _FORGET_S),
        np.float32(min(1.0, tick_s / _FORGET_S)),
        np.int32(max(1, round(_WINDOW_S / tick_s))),
        # At least two, so that no single sample is believed.
        np.int32(max(2, round(_CARRIED_S / tick_s))),
    )


@kernel
def begin(known: Full, declared: F32) -> None:
    """Start at the declared saturations [A] where they are new."""
    for app in range(declared.size):
        if known.declared[app] != declared[app]:
            known.declared[app] = declared[app]
            known.full_at[app] = _capped(declared[app])
            known.doubt[app] = PRIOR
            known.strained[app] = 0


@kernel
def _capped(use: np.float32) -> np.float32:
    return min(max(use, _LEAST), _MOST)


@kernel
def learn_full(
    known: Full,
    sample: F32,
    fresh: I8,
    mean_rps: F32,
    request: I32,
    in_flight: I32,
    per_target: F32,
    gain: Pace,
) -> None:
    """Take in the samples [SAMPLES, A] of a tick; all other arrays are [A]."""
    rps, errors, p99 = sample[rows.RPS], sample[rows.ERRORS], sample[rows.P99]
    cpu, pods = sample[rows.CPU], sample[rows.PODS]
    for app in range(fresh.size):
        # Nothing was measured, or no pods were: a mean over part of a pod shows no full one.
        if fresh[app] == 0 or pods[app] < _ONE or request[app] <= 0:
            continue
        use = cpu[app] / (np.float32(request[app]) * _CORES * pods[app])
        known.doubt[app] = min(PRIOR, np.float32(np.sqrt(known.doubt[app] ** 2 + gain.doubt)))
        back = _capped(known.declared[app]) - known.full_at[app]
        known.full_at[app] += gain.forgetting * back
        if fresh[app] != _FRESH:
            continue
        now = cpu[app] / max(rps[app], _LEAST_RPS)
        # Errors alone show nothing of these pods: a callee that fails fast saves them work.
        late = p99[app] * per_target[app] > _ONE
        lacking = now < (_ONE - _LACKING) * known.work[app]
        usual = abs(rps[app] - mean_rps[app]) < _USUAL * mean_rps[app]
        usual &= in_flight[app] < _FEW * pods[app]
        above = (known.in_time[app] > _ZERO) & (use > known.in_time[app])
        plausible = use > _PLAUSIBLE * known.full_at[app]
        carried = use * (_ONE - _NOISE) > known.full_at[app]
        _count(known, app, use, (lacking | (usual & above)) & late & plausible, carried)
        if not late:
            _remember_in_time(known, app, use, gain.forgetting)
        if known.strained[app] >= gain.window:
            _correct(known, app, min(_MOST, known.peak[app]), _FULL_NOISE)
        elif known.strained[app] <= -gain.carried:
            _correct(known, app, min(_MOST, known.peak[app] * (_ONE - _NOISE)), _NOISE)
            known.strained[app] = 0
        fallen = rps[app] / max(mean_rps[app], _LEAST_RPS)
        _learn_work(known, app, now, use, rps[app], errors[app], fallen, gain.learning)


@kernel
def _count(known: Full, app: int, use: np.float32, strained: bool, carried: bool) -> None:
    """Count ticks in a row that show the same; pods that seem full are just that."""
    ticks, peak = known.strained[app], known.peak[app]
    if strained:
        known.strained[app] = max(ticks, 0) + 1
        known.peak[app] = max(peak, use) if ticks > 0 else use
    elif carried:
        known.strained[app] = min(ticks, 0) - 1
        known.peak[app] = min(peak, use) if ticks < 0 else use
    else:
        known.strained[app], known.peak[app] = 0, _ZERO


@kernel
def _remember_in_time(known: Full, app: int, use: np.float32, forgetting: np.float32) -> None:
    before = known.in_time[app]
    step = _IN_TIME_STEP if use > before else forgetting
    known.in_time[app] = before + step * (use - before) if before > _ZERO else use


@kernel
def _correct(known: Full, app: int, seen: np.float32, noise: np.float32) -> None:
    """Move the estimate towards what was seen, further where it is in more doubt."""
    variance = known.doubt[app] * known.doubt[app]
    gain = variance / (variance + noise * noise)
    full = known.full_at[app] + gain * (seen - known.full_at[app])
    known.full_at[app] = _capped(full)
    known.doubt[app] = max(_SURE, np.float32(np.sqrt(variance * (_ONE - gain))))


@kernel
def _learn_work(
    known: Full,
    app: int,
    now: np.float32,
    use: np.float32,
    rps: np.float32,
    errors: np.float32,
    fallen: np.float32,
    gain: np.float32,
) -> None:
    """CPU shows the work of requests only while there is room for them.

    `fallen` is what is left of the requests of the last minutes.
    """
    if rps <= _LEAST_RPS:
        return
    falling = fallen < _ONE + _FALLING
    work, filled = known.work[app], use >= _ROOM * known.full_at[app]
    if filled | (errors >= _CLEAN):
        # A full app that costs more than ever learned is believed: its requests became heavier. But
        # requests that vanished may only be unseen, so their part of the cost is not.
        believed = now * fallen if falling else now
        known.work[app] = max(work, believed if filled else _ZERO)
        return
    learned = work + gain * (now - work) if work > _ZERO else now
    known.work[app] = min(learned, work) if falling & (work > _ZERO) else learned

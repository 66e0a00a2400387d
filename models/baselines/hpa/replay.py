"""One HPA over a list of moments, each with what the metric says: the rules without a world."""

from typing import NamedTuple

import numpy as np

from models.baselines.hpa.behaviour import Memory, behave, empty_memory, store_change
from models.baselines.hpa.gate import NO_METRIC, gate
from models.baselines.hpa.settings import DOWNSCALE_WINDOW_S, Behaviour, Rules, rules_of
from models.baselines.hpa.window import Window, empty_window, limit, open_step, stabilise
from models.cluster.arrays import I32, I64
from models.jit import kernel


class Moments(NamedTuple):
    """T moments."""

    millis: I64
    """[T]."""
    recommended: I32
    """[T] by the metric; negative where it failed."""
    override: I32
    """[T] replicas that someone else set just before; negative for none."""


class Replayed(NamedTuple):
    """What became of them."""

    current: I32
    """[T] replicas before."""
    final: I32
    """[T] replicas after."""


class Spec(NamedTuple):
    """An HPA and the settings of the controller around it."""

    least: int
    most: int
    behaviour: Behaviour | None = None
    downscale_window_s: int = DOWNSCALE_WINDOW_S
    to_zero: bool = False
    """Whether the feature gate HPAScaleToZero is on."""
    latency_millis: int = 0
    """Until a change of the scale is confirmed."""


def replay(spec: Spec, moments: Moments, replicas: int) -> Replayed:
    """Begin with a number of replicas and let one HPA decide all moments."""
    steps = moments.millis.size
    result = Replayed(np.zeros(steps, np.int32), np.zeros(steps, np.int32))
    _replay(
        moments,
        result,
        rules_of([spec.behaviour], spec.downscale_window_s),
        empty_window(steps + 1, 1),
        empty_memory(steps + 1, steps + 1, 1),
        np.array([spec.least], np.int32),
        np.array([spec.most], np.int32),
        1000 * spec.downscale_window_s,
        spec.to_zero,
        spec.latency_millis,
        np.full((3, 1), replicas, np.int32),
    )
    return result


@kernel
def _replay(
    moments: Moments, result: Replayed, rules: Rules, window: Window, memory: Memory,
    least: I32, most: I32, window_millis: int, to_zero: bool, latency: int, rows: I32,
) -> None:  # fmt: skip
    """The same kernels as over a world's apps, on rows of one."""
    current, wanted, final = rows[0], rows[1], rows[2]
    slept = False
    for step in range(moments.millis.size):
        now = moments.millis[step]
        if moments.override[step] >= 0:
            current[0] = moments.override[step]
        # An HPA leaves zero only if it went there itself; otherwise zero switches it off.
        scalable = current[0] != 0 or (to_zero and slept)
        asked = max(moments.recommended[step], NO_METRIC)
        wanted[0] = gate(asked, current[0], least[0], most[0], scalable)
        if rules.set[0] == 1:
            final[0] = behave(rules, memory, 0, wanted[0], current[0], least[0], most[0], now)
        else:
            open_step(window, now, window_millis)
            stabilise(window, wanted, current, final)
            limit(wanted, current, least, most, final)
        result.current[step], result.final[step] = current[0], final[0]
        if final[0] != current[0]:
            if rules.set[0] == 1:
                store_change(rules, memory, 0, current[0], final[0], now + latency)
            slept = current[0] > 0 and final[0] == 0 and least[0] == 0
        current[0] = final[0]

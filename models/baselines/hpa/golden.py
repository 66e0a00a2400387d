"""Golden cases: inputs with the answers of the real controller, and how they are checked.

A case is one JSON object per line. It is either one call of the replica calculator, or one HPA
over a list of moments, run by `replay` without a world; its fields decide which of the two.
"""

from typing import Literal, NamedTuple

import msgspec
import numpy as np

from models.baselines.hpa.behaviour import BehaviourMemory, behave, empty_memory, store_change
from models.baselines.hpa.recommend import Failure, Pod, Readiness, Target, recommend
from models.baselines.hpa.settings import (
    DOWNSCALE_WINDOW_S,
    Behaviour,
    BehaviourRules,
    compile_rules,
)
from models.baselines.hpa.window import (
    NO_METRIC,
    Window,
    empty_window,
    gate,
    limit,
    open_step,
    stabilise,
)
from models.cluster.arrays import I32, I64
from models.jit import kernel


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a case: `got` differs from `expected` if it failed."""

    id: str
    expected: str
    got: str

    @property
    def passed(self) -> bool:
        """Whether the answer equals the real controller's."""
        return self.expected == self.got


class _Stray(msgspec.Struct, frozen=True):
    usage_millis: int


class _Answer(msgspec.Struct, frozen=True):
    error: bool
    error_kind: str | None = None
    replicas: int | None = None
    utilization_pct: int | None = None
    average_value_millis: int | None = None


class CalculatorCase(msgspec.Struct, frozen=True):
    """One call of the replica calculator."""

    id: str
    function: Literal["resource_utilization", "resource_average_value", "pods_metric_average_value"]
    resource: Literal["cpu", "memory"] | None
    current_replicas: int
    target_utilization_pct: int | None
    target_average_value_millis: int | None
    tolerance_up: float
    tolerance_down: float
    cpu_initialization_period_s: float
    delay_of_initial_readiness_status_s: float
    pods: tuple[Pod, ...]
    metrics_without_pod: tuple[_Stray, ...]
    expected: _Answer

    def __post_init__(self) -> None:
        by_utilisation = self.function == "resource_utilization"
        target = self.target_utilization_pct if by_utilisation else self.target_average_value_millis
        if target is None or target <= 0:
            raise ValueError("expected the target of the function, above 0")


class _Override(msgspec.Struct, frozen=True):
    step: int
    replicas: int


class SequenceCase(msgspec.Struct, frozen=True):
    """One HPA over a list of moments."""

    id: str
    min_replicas: int
    max_replicas: int
    initial_replicas: int
    behavior: Behaviour | None
    downscale_stabilization_window_s: int
    scale_to_zero_enabled: bool
    update_latency_millis: int
    overrides: tuple[_Override, ...]
    time_millis: tuple[int, ...]
    raw_desired: tuple[int | None, ...]
    current: tuple[int, ...]
    final: tuple[int, ...]
    rescaled: tuple[int, ...]

    def __post_init__(self) -> None:
        lists = (self.raw_desired, self.current, self.final, self.rescaled)
        steps = len(self.time_millis)
        if any(len(values) != steps for values in lists):
            raise ValueError("expected lists of one length")
        if any(not 0 <= override.step < steps for override in self.overrides):
            raise ValueError("expected overrides at steps of the sequence")


Case = CalculatorCase | SequenceCase


class _Kind(msgspec.Struct):
    function: str | None = None


_KIND = msgspec.json.Decoder(_Kind)
_CALCULATOR = msgspec.json.Decoder(CalculatorCase)
_SEQUENCE = msgspec.json.Decoder(SequenceCase)


def read_case(line: bytes) -> Case:
    """Decode a line; raises msgspec.DecodeError with the reason."""
    # The recorded lines carry no type tag, but only calls of the calculator name a function.
    if _KIND.decode(line).function is not None:
        return _CALCULATOR.decode(line)
    return _SEQUENCE.decode(line)


def check(case: Case) -> Verdict:
    """Compute a case and compare."""
    if isinstance(case, CalculatorCase):
        return _check_calculator(case)
    return _check_sequence(case)


def _check_calculator(case: CalculatorCase) -> Verdict:
    utilisation = case.function == "resource_utilization"
    of_resource = case.function != "pods_metric_average_value"
    found = recommend(
        case.pods,
        [stray.usage_millis for stray in case.metrics_without_pod],
        case.current_replicas,
        Target(
            # Readiness matters for the resource CPU alone, never for pods metrics.
            by_cpu=of_resource and case.resource == "cpu",
            percent=case.target_utilization_pct if utilisation else None,
            average_millis=case.target_average_value_millis or 0,
            tolerance_up=case.tolerance_up,
            tolerance_down=case.tolerance_down,
        ),
        Readiness(
            cpu_initialization_period_s=case.cpu_initialization_period_s,
            delay_of_initial_readiness_status_s=case.delay_of_initial_readiness_status_s,
        ),
    )
    if isinstance(found, Failure):
        got = f"error {found.value}"
    else:
        got = _describe(found.replicas, found.utilisation_percent, found.average_millis)
    return Verdict(id=case.id, expected=_expected(case.expected), got=got)


def _expected(answer: _Answer) -> str:
    if answer.error:
        return f"error {answer.error_kind}"
    return _describe(answer.replicas, answer.utilization_pct, answer.average_value_millis)


def _describe(replicas: int | None, percent: int | None, average: int | None) -> str:
    share = "" if percent is None else f", {percent} %"
    return f"{replicas} replicas{share}, {average} millis a pod"


def _check_sequence(case: SequenceCase) -> Verdict:
    steps = len(case.time_millis)
    overrides = np.full(steps, -1, np.int32)
    for override in case.overrides:
        overrides[override.step] = override.replicas
    raw = [-1 if value is None else value for value in case.raw_desired]
    spec = Spec(
        least=case.min_replicas,
        most=case.max_replicas,
        behaviour=case.behavior,
        downscale_window_s=case.downscale_stabilization_window_s,
        to_zero=case.scale_to_zero_enabled,
        latency_millis=case.update_latency_millis,
    )
    moments = Moments(np.array(case.time_millis, np.int64), np.array(raw, np.int32), overrides)
    found = replay(spec, moments, case.initial_replicas)
    expected = list(zip(case.current, case.final, case.rescaled, strict=True))
    current, final = found.current.tolist(), found.final.tolist()
    got = [(c, f, int(c != f)) for c, f in zip(current, final, strict=True)]
    for step in range(steps):
        # Report the first difference only: all later ticks start from other replicas.
        if got[step] != expected[step]:
            at = f"tick {step} at {case.time_millis[step]} ms: "
            return Verdict(
                id=case.id,
                expected=at + _describe_tick(expected[step]),
                got=at + _describe_tick(got[step]),
            )
    return Verdict(id=case.id, expected=f"{steps} ticks", got=f"{steps} ticks")


def _describe_tick(tick: tuple[int, int, int]) -> str:
    current, final, rescaled = tick
    return f"{current} to {final}{', rescaled' if rescaled else ''}"


class Moments(NamedTuple):
    """T moments."""

    millis: I64
    """[T]."""
    recommended: I32
    """[T] by the metric; negative where it failed."""
    override: I32
    """[T] replicas set from outside just before; negative for none."""


class Replayed(NamedTuple):
    """The decisions on T moments."""

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
    """Until the API server confirms a change of the scale."""


class _Hpa(NamedTuple):
    """`Spec` as the kernel takes it: rows of one app."""

    rules: BehaviourRules
    least: I32
    most: I32
    window_millis: int
    to_zero: bool
    latency_millis: int


def replay(spec: Spec, moments: Moments, replicas: int) -> Replayed:
    """Let one HPA decide all moments, starting with a number of replicas."""
    steps = moments.millis.size
    result = Replayed(np.zeros(steps, np.int32), np.zeros(steps, np.int32))
    hpa = _Hpa(
        compile_rules([spec.behaviour], spec.downscale_window_s),
        np.array([spec.least], np.int32),
        np.array([spec.most], np.int32),
        1000 * spec.downscale_window_s,
        spec.to_zero,
        spec.latency_millis,
    )
    # A row per step, so that nothing is dropped for lack of space: only the rules may forget.
    window, memory = empty_window(steps + 1, 1), empty_memory(steps + 1, steps + 1, 1)
    _replay(hpa, moments, window, memory, np.full((3, 1), replicas, np.int32), result)
    return result


@kernel
def _replay(
    hpa: _Hpa,
    moments: Moments,
    window: Window,
    memory: BehaviourMemory,
    rows: I32,
    result: Replayed,
) -> None:
    """The same kernels as over a world's apps, on rows of one app."""
    rules, least, most = hpa.rules, hpa.least, hpa.most
    current, wanted, final = rows[0], rows[1], rows[2]
    scaled_to_zero = False
    for step in range(moments.millis.size):
        now = moments.millis[step]
        if moments.override[step] >= 0:
            current[0] = moments.override[step]
        # An HPA leaves zero only if it scaled to zero itself; otherwise zero switches it off.
        scalable = current[0] != 0 or (hpa.to_zero and scaled_to_zero)
        recommended = max(moments.recommended[step], NO_METRIC)
        wanted[0] = gate(recommended, current[0], least[0], most[0], scalable)
        if rules.set[0] == 1:
            final[0] = behave(rules, memory, 0, wanted[0], current[0], least[0], most[0], now)
        else:
            open_step(window, now, hpa.window_millis)
            stabilise(window, wanted, current, final)
            limit(wanted, current, least, most, final)
        result.current[step], result.final[step] = current[0], final[0]
        if final[0] != current[0]:
            if rules.set[0] == 1:
                # A change counts from its confirmation, not from the decision.
                store_change(rules, memory, 0, current[0], final[0], now + hpa.latency_millis)
            scaled_to_zero = current[0] > 0 and final[0] == 0 and least[0] == 0
        current[0] = final[0]

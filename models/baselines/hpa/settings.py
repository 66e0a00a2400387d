"""Settings of an HPA: targets, bounds and the `behavior` field with the API's defaults."""

from collections.abc import Sequence
from typing import Annotated, Final, Literal, NamedTuple

import msgspec
import numpy as np

from models.cluster.arrays import F64, I32, I64

UP, DOWN = range(2)
"""Directions, the first axis of every array of rules."""
KIND, VALUE, PERIOD = range(3)
"""Columns of `BehaviourRules.policies`; the period in milliseconds."""
# Numbers instead of the API's words, because kernels take no text.
PODS, PERCENT = range(2)
MAX, MIN, DISABLED = range(3)
_NO_POLICY: Final = -1
"""Kind of an unused place: HPAs have different numbers of policies, arrays have one width."""
_KINDS: Final = {"Pods": PODS, "Percent": PERCENT}
_SELECTS: Final = {"Max": MAX, "Min": MIN, "Disabled": DISABLED}

DOWNSCALE_WINDOW_S: Final = 300
"""The controller's flag --horizontal-pod-autoscaler-downscale-stabilization."""

_Seconds = Annotated[int, msgspec.Meta(ge=0)]


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """At most `value` pods, or percent of the pods at the start of the period, per period."""

    type: Literal["Pods", "Percent"]
    value: int
    period_s: _Seconds


class ScalingRules(msgspec.Struct, frozen=True, kw_only=True):
    """One direction of `behavior`; None means the API's default."""

    stabilization_window_s: _Seconds | None = None
    select_policy: Literal["Max", "Min", "Disabled"] | None = None
    policies: tuple[Policy, ...] | None = None


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """The `behavior` field of an HPA. An empty field is not the same as no field."""

    scale_up: ScalingRules | None = None
    scale_down: ScalingRules | None = None


# Defaults of the API: pkg/apis/autoscaling/v2/defaults.go of Kubernetes.
_FOUR_PODS = Policy(type="Pods", value=4, period_s=15)
_DOUBLE = Policy(type="Percent", value=100, period_s=15)


class BehaviourRules(NamedTuple):
    """Behaviours of A apps with up to P policies a direction; times in milliseconds."""

    set: I32
    """[A] 1 for an HPA that has the field."""
    window: I64
    """[2, A]."""
    select: I32
    """[2, A] MAX, MIN or DISABLED."""
    policies: I64
    """[2, P, 3, A]; a negative kind is no policy."""
    longest: I64
    """[2, A] the longest period."""


class Bounds(NamedTuple):
    """Per app: target utilisation, tolerance and replicas."""

    target: F64
    """[E, A] percent of the request; whole. One row where all environments have the same."""
    low: F64
    """[A] lower end of the tolerated ratio of use and target: 1 - tolerance."""
    high: F64
    """[A] upper end: 1 + tolerance."""
    least: I32
    """[A]."""
    most: I32
    """[A]."""


def compile_rules(
    behaviours: Sequence[Behaviour | None], downscale_window_s: int = DOWNSCALE_WINDOW_S
) -> BehaviourRules:
    """Fill in defaults, field by field, and convert the behaviours to arrays."""
    apps = len(behaviours)
    # Apps without the field are filled in as well, because every array has a column per app;
    # `set` marks the columns that apply.
    filled = [_filled(behaviour or Behaviour(), downscale_window_s) for behaviour in behaviours]
    most = max((len(side.policies or ()) for pair in filled for side in pair), default=0)
    rules = BehaviourRules(
        set=np.array([behaviour is not None for behaviour in behaviours], np.int32),
        window=np.zeros((2, apps), np.int64),
        select=np.zeros((2, apps), np.int32),
        policies=np.full((2, most, 3, apps), _NO_POLICY, np.int64),
        longest=np.zeros((2, apps), np.int64),
    )
    for app, pair in enumerate(filled):
        for direction, side in enumerate(pair):
            _write(rules, direction, app, side)
    return rules


def _filled(behaviour: Behaviour, window_s: int) -> tuple[ScalingRules, ScalingRules]:
    up, down = behaviour.scale_up or ScalingRules(), behaviour.scale_down or ScalingRules()
    return _with_defaults(up, 0, (_FOUR_PODS, _DOUBLE)), _with_defaults(down, window_s, (_DOUBLE,))


def _with_defaults(side: ScalingRules, window_s: int, policies: tuple[Policy, ...]) -> ScalingRules:
    given = side.stabilization_window_s
    return ScalingRules(
        # Zero is a valid window, so `or` would be wrong.
        stabilization_window_s=window_s if given is None else given,
        select_policy=side.select_policy or "Max",
        # A given list replaces the default one; the two are not merged.
        policies=policies if side.policies is None else side.policies,
    )


def _write(rules: BehaviourRules, direction: int, app: int, side: ScalingRules) -> None:
    rules.window[direction, app] = 1000 * (side.stabilization_window_s or 0)
    rules.select[direction, app] = _SELECTS[side.select_policy or "Max"]
    for index, policy in enumerate(side.policies or ()):
        period = 1000 * policy.period_s
        rules.policies[direction, index, :, app] = _KINDS[policy.type], policy.value, period
        rules.longest[direction, app] = max(rules.longest[direction, app], period)

"""Settings of a training run, in a module without torch: the command line shows them."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from models.inputs.errors import InputError, did_you_mean


class Weights(NamedTuple):
    """What a minute costs, relative to the heuristic's cost on the same seed.

    Chosen by hand, following what a prototype measured: a P0 weight of four times that of the
    objective kept P0 from being sold, and only the pairing mattered at every scale. Terms of 0 are
    off: nothing has shown yet that they help.
    """

    p0: float = 4.0
    """Factor on the objective's weight of P0's violations."""
    worst_domain: float = 0.1
    """Share of the cost that only the domain with the highest cost of violations counts for."""
    node_hours: float = 1.0
    """Factor on node-hours; the price of a cap on them is added."""
    action_change: float = 0.002
    """Cost of a squared change of an action, in shares of the heuristic's mean cost."""
    coupling: float = 0.0
    """Of a Soldier's growth while its Commander is urgent: a bonus where the app is at risk, a
    penalty where it is not, in shares of what the app holds."""
    latency_variance: float = 0.0
    """Cost of the variance of p99 over target in the last ten minutes, beyond the heuristic's."""
    money: float = 0.0
    """Factor on what nodes cost: reserved ones amortised over every minute, whether they run or
    not, spot ones at the price of spot."""
    overspend: float = 0.0
    """Cost of a minute that costs more than the spend cap allows, beyond the heuristic's."""
    potential: float = 0.0
    """Of the shaping by how far p99 is over target: it says earlier what violations say later, and
    moves no optimum."""
    most: float = 3.0
    """Largest cost or gain of one minute, in the heuristic's mean minutes: a storm of retries makes
    single minutes hundreds of times as bad, and no other minute would be heard."""
    most_of_app: float = 10.0
    """The same for an app, in minutes of what it holds."""


class Args(NamedTuple):
    """Settings of a training run; part of the policy's card."""

    agent: str = "commander"
    seed: int = 0
    apps: int = 155
    """Of the worlds to judge in, and to learn in at last."""
    smaller: tuple[int, ...] = ()
    """Apps of the worlds to learn in before, stage after stage, each as long as the last one."""
    drawn: int = 8
    """Randomised worlds beside the scenarios of the example cluster; as many others judge."""
    world_seeds: tuple[int, ...] = tuple(range(6))
    """Of the worlds to learn in."""
    judge_seeds: tuple[int, ...] = (6, 7, 8, 9)
    """Of the worlds that choose the best iteration; reports use others."""
    forecast: str = "calendar"
    iterations: int = 40
    """Each plays every scenario once with every seed."""
    judge_every: int = 4
    """Iterations between two judgements."""
    learning_rate: float = 2e-4
    critic_rate: float = 1e-3
    """Of the critic's steps; `learning_rate` is that of the policy's."""
    discount: float = 0.995
    """Per minute."""
    cusum: bool = False
    """Whether the discount follows change points of the returns."""
    trace: float = 0.95
    """Lambda of the advantage estimate."""
    clip: float = 0.2
    epochs: int = 4
    """Passes over the decisions of an iteration."""
    minibatch: int = 512
    most_kl: float = 0.02
    """Divergence from the policy that acted after which an iteration leaves the policy alone."""
    critic_first: int = 1
    """Iterations in which only the critic learns: what it says at first would undo the start."""
    entropy: float = 0.0
    """Bonus for spread-out actions."""
    log_std: float = -1.7
    """At the start."""
    hidden: int = 48
    value_weight: float = 0.5
    most_gradient: float = 0.5
    levers: tuple[str, ...] = ("headroom",)
    """Outputs that the policy moves; the others stay neutral."""
    oracle: tuple[float, float] = (0.9, 1.2)
    """Headroom of the oracle that a Commander imitates first, where nothing is coming and where
    something is."""
    expectile: float = 0.5
    """Of the oracle's headroom given what a Commander sees; above a half, doubt is resolved up."""
    beside: str = ""
    """Folder of a policy of the other level, which stays as it is; empty: the heuristic. Levels
    learn in turn: the one, then the other beside it, then the one again."""
    most_nodes: float | None = None
    """Cap on node-hours over the heuristic's, less one, that a price on them keeps a policy to; a
    policy beyond it is never the best one. None: J alone decides what nodes are worth."""
    weights: Weights = Weights()


SOLDIER: Args = Args(
    agent="soldier",
    # An app answers for its own minutes: what it does now shows within a few of them.
    discount=0.9,
    log_std=-2.0,
    minibatch=512,
    learning_rate=3e-4,
    hidden=32,
    levers=("need",),
)
"""What a Soldier is trained with."""


def with_settings(args: Args, settings: Iterable[str]) -> Args:
    """Settings changed by NAME=VALUE, of the run or of the weights: for ablations."""
    for setting in settings:
        name, _, text = setting.partition("=")
        where: Args | Weights = args if name in Args._fields else args.weights
        if name not in where._fields or not text or name == "weights":
            known = sorted({*Args._fields, *Weights._fields} - {"weights"})
            hint = did_you_mean(name, known)
            raise InputError(f"set: {setting}: {hint}expected NAME=VALUE of {', '.join(known)}")
        changed = where._replace(**{name: _parsed(name, text, getattr(where, name))})
        args = changed if isinstance(changed, Args) else args._replace(weights=changed)
    return args


def _parsed(name: str, text: str, like: Any) -> Any:
    """A value of the type of the present one; tuples are separated by commas."""
    many = isinstance(like, tuple)
    kind: type = type(like)
    if many:
        # The only empty one has numbers of apps.
        kind = type(like[0]) if like else int
    elif like is None:
        kind = float
    try:
        found: list[Any] = [msgspec.convert(part, kind, strict=False) for part in text.split(",")]
    except msgspec.ValidationError as error:
        raise InputError(f"set: {name}: {error}") from None
    if len(found) > 1 and not many:
        raise InputError(f"set: {name}: expected one value, got {len(found)}")
    return tuple(found) if many else found[0]

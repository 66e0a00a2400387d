"""Training, top to bottom: sample windows, drop some inputs, step, validate, keep the best weights.

Deterministic for a seed and a number of threads. Each epoch ends with a checkpoint; an interrupted
run continues from it with the same result.
"""

from pathlib import Path
from typing import Final, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from models.forecaster.learned.inputs import AHEAD_MIN, FUTURE, PAST, PAST_WINDOWS, STATIC
from models.forecaster.training.args import Args
from models.forecaster.training.network import Shape, TemporalFusionTransformer
from models.forecaster.training.pool import Pool
from models.inputs.errors import InputError

LEVELS: Final = (0.1, 0.5, 0.9, 0.9)
"""Quantiles of the outputs; the last is of the maximum."""
_DECAY: Final = 0.998
"""Decay per step of the averaged weights, which are validated and shipped."""
_VALIDATION_BATCH: Final = 512
"""Larger batches exceed a core's cache and take twice as long per row."""


class Epoch(NamedTuple):
    """A point of the learning curves."""

    epoch: int
    training_loss: float
    """Mean loss of its steps."""
    validation_loss: float
    """Loss on the validation windows."""


class TrainingWatch(Protocol):
    """Receives progress."""

    def begun(self, seed: int) -> None:
        """The training of the member with this seed begins or continues."""
        ...

    def step(self, epoch: int, step: int, loss: float) -> None:
        """A step is done; the loss is the mean of its epoch so far."""
        ...

    def epoch_ended(self, epoch: Epoch) -> None:
        """An epoch is over."""
        ...


class Trained(NamedTuple):
    """The best network of a run, and its learning curve."""

    network: TemporalFusionTransformer
    curve: list[Epoch]


def train(
    args: Args, training: Pool, validation: Pool, checkpoint: Path, watch: TrainingWatch
) -> Trained:
    """Train one member, or continue from its checkpoint."""
    torch.set_num_threads(args.threads)
    torch.use_deterministic_algorithms(mode=True)
    run = _Run(args, checkpoint, training.digest + validation.digest)
    watch.begun(args.seed)
    chances = training.share / training.share.sum()
    for epoch in range(run.epoch, args.epochs):
        # Inside the loop, so that a resumed run stops where the interrupted one would have.
        if run.is_stuck():
            break
        loss = 0.0
        for step, rows in enumerate(run.draws(chances)):
            loss += run.step(_batch(training, rows))
            watch.step(epoch, step, loss / (step + 1))
        closed = Epoch(epoch, loss / args.steps, run.validate(validation))
        run.close(closed)
        watch.epoch_ended(closed)
    return run.best()


def settings_of(checkpoint: Path) -> Args:
    """Settings of the run that wrote a checkpoint."""
    return Args(*torch.load(checkpoint, weights_only=False)["args"])


def fresh(args: Args) -> TemporalFusionTransformer:
    """An untrained network."""
    shape = Shape(
        past=len(PAST),
        future=len(FUTURE),
        static=len(STATIC),
        windows=len(PAST_WINDOWS),
        ahead=len(AHEAD_MIN),
        changes=tuple(i for i, name in enumerate(FUTURE) if name.endswith("_change")),
        levels=tuple(i for i, name in enumerate(FUTURE) if name.endswith("_ago")),
        hidden=args.hidden,
        heads=args.heads,
        dropout=args.dropout,
    )
    return TemporalFusionTransformer(shape)


class _Run:
    """Everything that changes during training."""

    def __init__(self, args: Args, checkpoint: Path, digest: str) -> None:
        torch.manual_seed(args.seed)
        self._args, self._checkpoint, self._digest = args, checkpoint, digest
        self._draw = np.random.default_rng(args.seed)
        self._network = fresh(args)
        self._optimiser = torch.optim.AdamW(
            self._network.parameters(), args.learning_rate, weight_decay=args.weight_decay
        )
        self._schedule = torch.optim.lr_scheduler.OneCycleLR(
            self._optimiser, args.learning_rate, total_steps=args.epochs * args.steps, pct_start=0.1
        )
        self._average = {k: v.clone() for k, v in self._network.state_dict().items()}
        self._best = self._average
        self._curve: list[Epoch] = []
        # Last, because it overwrites the random states that building the network has used.
        if checkpoint.exists():
            self._resume()

    @property
    def epoch(self) -> int:
        return len(self._curve)

    def is_stuck(self) -> bool:
        """Whether the last epochs did not improve the validation loss."""
        losses = [each.validation_loss for each in self._curve]
        return bool(losses) and len(losses) - 1 - int(np.argmin(losses)) >= self._args.patience

    def draws(self, chances: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[np.ndarray]:  # type: ignore[type-arg]
        """Indices of the windows of each step of an epoch."""
        # numpy draws windows and torch drops inputs; the checkpoint has the state of both
        # generators.
        size = (self._args.steps, self._args.batch)
        return list(self._draw.choice(chances.size, size, p=chances))

    def step(self, batch: dict[str, Tensor]) -> float:
        self._network.train()
        loss = _loss(self._network, _with_dropped_inputs(batch, self._args))
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self._network.parameters(), 1.0)
        self._optimiser.step()
        self._schedule.step()
        with torch.no_grad():
            for name, value in self._network.state_dict().items():
                self._average[name].lerp_(value, 1.0 - _DECAY)
        return float(loss.detach())

    def validate(self, pool: Pool) -> float:
        """Loss of the averaged weights; parts have the same weight as in training."""
        network = fresh(self._args)
        network.load_state_dict(self._average)
        network.eval()
        total = weight = 0.0
        with torch.no_grad():
            for first in range(0, pool.share.size, _VALIDATION_BATCH):
                rows = np.arange(first, min(first + _VALIDATION_BATCH, pool.share.size))
                batch = _batch(pool, rows)
                # A validation pass reads every window once, so shares act as weights, not as
                # probabilities.
                batch["weight"] = batch["weight"] * torch.tensor(pool.share[rows])
                total += float(_loss(network, batch)) * rows.size
                weight += float(pool.share[rows].sum())
        return total / weight

    def close(self, epoch: Epoch) -> None:
        """Keep the best weights and write the checkpoint."""
        if all(epoch.validation_loss < before.validation_loss for before in self._curve):
            self._best = {k: v.clone() for k, v in self._average.items()}
        self._curve.append(epoch)
        self._checkpoint.parent.mkdir(parents=True, exist_ok=True)
        written = self._checkpoint.with_suffix(".new")
        torch.save(self._state(), written)
        # Atomic: an interruption never leaves half a checkpoint behind.
        written.replace(self._checkpoint)

    def best(self) -> Trained:
        network = fresh(self._args)
        network.load_state_dict(self._best)
        network.eval()
        return Trained(network, self._curve)

    def _state(self) -> dict[str, object]:
        return {
            "args": tuple(self._args),
            "digest": self._digest,
            "network": self._network.state_dict(),
            "average": self._average,
            "best": self._best,
            "optimiser": self._optimiser.state_dict(),
            "schedule": self._schedule.state_dict(),
            "curve": [tuple(each) for each in self._curve],
            "draw": self._draw.bit_generator.state,
            "torch": torch.get_rng_state(),
        }

    def _resume(self) -> None:
        state = torch.load(self._checkpoint, weights_only=False)
        if Args(*state["args"]) != self._args:
            raise ValueError(f"{self._checkpoint}: from a run with other settings; remove it first")
        # Settings don't show a changed file or encoding, and the curves of two data sets don't mix.
        if state.get("digest") != self._digest:
            raise InputError(
                f"{self._checkpoint}: from a run on other data, or with another version; "
                "give the same traces, or --fresh to start over"
            )
        self._network.load_state_dict(state["network"])
        self._average, self._best = state["average"], state["best"]
        self._optimiser.load_state_dict(state["optimiser"])
        self._schedule.load_state_dict(state["schedule"])
        self._curve = [Epoch(*each) for each in state["curve"]]
        self._draw.bit_generator.state = state["draw"]
        torch.set_rng_state(state["torch"])


def _batch(pool: Pool, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> dict[str, Tensor]:
    names = ("past", "future", "static", "target", "peak", "weight")
    return {name: torch.from_numpy(getattr(pool, name)[rows]) for name in names}


def _loss(network: TemporalFusionTransformer, batch: dict[str, Tensor]) -> Tensor:
    """Mean quantile loss over rows, minutes ahead and quantiles; missing targets cost nothing."""
    forecast = network(batch["past"], batch["future"], batch["static"]).quantiles
    actual = torch.stack([batch["target"]] * 3 + [batch["peak"]], dim=-1)
    # A gap of 0 has no loss and no gradient.
    gap = torch.where(torch.isfinite(actual), actual - forecast, 0.0)
    level = torch.tensor(LEVELS)
    losses = torch.maximum(level * gap, (level - 1.0) * gap)
    return (losses.mean(dim=(1, 2)) * batch["weight"]).mean()


def _with_dropped_inputs(batch: dict[str, Tensor], args: Args) -> dict[str, Tensor]:
    """Drop inputs of some windows, so that the model also works where they are missing."""
    rows = batch["weight"].shape[0]
    chance = torch.rand(4, rows)
    static, past, future = batch["static"], batch["past"], batch["future"]
    static = static * _keep(chance[0] < args.anonymous, STATIC, _IDENTITY)
    uncalendared = chance[1] < args.uncalendared
    # A series without a calendar announces nothing.
    static = static * _keep(uncalendared, STATIC, {"announces"})
    past = past * _keep(uncalendared, PAST, _CALENDAR).unsqueeze(1)
    future = future * _keep(uncalendared, FUTURE, _CALENDAR).unsqueeze(1)
    young = chance[2] < args.young
    # The skill of yesterday's value is unknown as well for a service without a yesterday.
    static = static * _keep(young, STATIC, _SEASONAL_CHARACTER)
    future = future * _keep(young, FUTURE, _SEASON).unsqueeze(1)
    future = future * _keep(chance[3] < args.clockless, FUTURE, _CLOCK).unsqueeze(1)
    return batch | {"static": static, "past": past, "future": future}


def _keep(drop: Tensor, names: tuple[str, ...], dropped: set[str]) -> Tensor:
    """[rows, variables] 0 where an input is dropped."""
    is_dropped = torch.tensor([name in dropped for name in names])
    return 1.0 - (drop[:, None] & is_dropped).float()


_IDENTITY: Final = {name for name in STATIC if name.startswith(("priority", "domain"))}
_CALENDAR: Final = {
    "under_way",
    "promised",
    "until_next",
    "since_last",
    "promised_change",
    "precedent_change",
    "precedents",
}
_SEASON: Final = {
    "yesterday_change",
    "last_week_change",
    "usual_change",
    "smooth_change",
    "yesterday_level",
    "last_week_level",
    "has_yesterday",
    "has_last_week",
}
_SEASONAL_CHARACTER: Final = {"day_skill"}
_CLOCK: Final = {name for name in FUTURE if name.startswith(("day_", "half_day_", "week_"))}

"""The Temporal Fusion Transformer under a published protocol, trained within minutes.

Every variate is a separate row, with its index as static input. The decoder steps in patches (a day
of hours, or single steps), and a linear layer reads the steps of each patch from the hidden state;
the network's quantiles are not used. It learns the residuals of a DLinear-like model: by itself it
is a fifth worse on ETT within as many steps. One network serves all horizons.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from models.cluster.arrays import F64, I64
from models.forecaster.score.protocols import Batch, Data, starts_of
from models.forecaster.score.published import Linear, fit_linear
from models.forecaster.training.network import Shape, TemporalFusionTransformer

CALENDAR: Final = 4
_TO_MEAN: Final = 1
"""Index among a patch's inputs of the change to the mean of the past, which the network's shortcut
needs."""
_HELD_BACK: Final = 0.1
"""Share of training rows, at their end, that select the best epoch."""
_JUDGED_ROWS: Final = 2048
_WEEK: Final = 7 * 24 * 60

Report = Callable[[int], None]
"""Receives the number of steps made."""


class Args(NamedTuple):
    """Settings of the training; small, like the tables of the protocols."""

    seed: int = 0
    epochs: int = 5
    steps: int = 60
    batch: int = 128
    learning_rate: float = 2e-3
    hidden: int = 16
    dropout: float = 0.2
    threads: int = 1


class Patched(nn.Module):
    """The network with a head that reads the steps of each patch."""

    def __init__(self, shape: Shape, patch: int) -> None:
        super().__init__()
        self.network = TemporalFusionTransformer(shape)
        self.within = nn.Linear(shape.hidden, patch)
        # An untrained network adds nothing to the linear model.
        nn.init.zeros_(self.within.weight)
        nn.init.zeros_(self.within.bias)

    def forward(self, past: Tensor, future: Tensor, static: Tensor) -> Tensor:
        """[B, patches * patch]."""
        return torch.flatten(self.within(self.network(past, future, static).hidden), 1)


class Fitted(NamedTuple):
    """Ready to predict; its first steps serve shorter horizons."""

    network: Patched
    linear: Linear
    """The model whose residuals it predicts."""
    data: Data
    unit: float
    steps: int
    patches: int

    def predict(self, batch: Batch) -> F64:
        """[B, steps, V]."""
        variates = batch.past.shape[2]
        added = [_added(self, batch, np.full(batch.row.size, index)) for index in range(variates)]
        steps = batch.ahead.shape[1]
        return self.linear.predict(batch)[:, :steps] + np.stack(added, axis=2)[:, :steps]


def fit_tft(data: Data, args: Args, report: Report) -> Fitted:
    """Train for the longest horizon of a protocol, keeping the best epoch."""
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    draw = np.random.default_rng(args.seed)
    # Held-back rows follow the training rows in time, as the scored rows do.
    trained = round(data.learned * (1 - _HELD_BACK))
    fitted = _fresh(data, args, trained)
    starts = starts_of(data, range(trained), fitted.steps)
    held = _held_back(data, trained, fitted.steps)
    optimiser = torch.optim.AdamW(fitted.network.parameters(), args.learning_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, args.learning_rate, total_steps=args.epochs * args.steps, pct_start=0.1
    )
    # Epoch zero counts: if training never helps, the linear model is returned as it is.
    best, lowest = _weights(fitted), _judged(fitted, held)
    for _ in range(args.epochs):
        fitted.network.train()
        for _ in range(args.steps):
            rows = draw.choice(starts, args.batch)
            loss = _loss(fitted, rows, draw.integers(0, data.values.shape[1], args.batch))
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(fitted.network.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            report(1)
        judged = _judged(fitted, held)
        if judged < lowest:
            lowest, best = judged, _weights(fitted)
    fitted.network.load_state_dict(best)
    fitted.network.eval()
    # The best epoch is chosen, so the linear model may use the held-back rows too.
    return fitted._replace(linear=fit_linear(data, fitted.steps))


def _weights(fitted: Fitted) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in fitted.network.state_dict().items()}


def _fresh(data: Data, args: Args, trained: int) -> Fitted:
    protocol = data.protocol
    steps = max(protocol.ahead)
    # Hourly protocols step by the day, so that 720 hours are 30 steps and not 720.
    patch = 24 if steps % 24 == 0 else 1
    shape = Shape(
        past=1 + CALENDAR,
        future=2 + CALENDAR,
        static=data.values.shape[1],
        windows=protocol.past,
        ahead=steps // patch,
        changes=(_TO_MEAN,),
        levels=(),
        hidden=args.hidden,
        dropout=args.dropout,
    )
    # The change over a past window if steps were independent: a typical size of the targets.
    unit = float(np.diff(data.values[: data.learned], axis=0).std()) * protocol.past**0.5
    linear = fit_linear(data._replace(learned=trained), steps)
    return Fitted(Patched(shape, patch), linear, data, unit, steps, shape.ahead)


def _held_back(data: Data, trained: int, steps: int) -> Batch:
    """Windows after the training windows."""
    first = max(trained, data.protocol.past)
    starts = np.arange(first, max(first + 1, data.learned - steps + 1))
    return _batch(data, starts, steps)


def _batch(data: Data, rows: I64, steps: int) -> Batch:
    past = data.protocol.past
    back = data.values[rows[:, None] + np.arange(-past, 0)]
    return Batch(rows, back, data.values[rows[:, None] + np.arange(steps)])


def _judged(fitted: Fitted, held: Batch) -> float:
    # Evenly spaced windows bound the time of each evaluation.
    every = max(1, held.row.size * held.past.shape[2] // _JUDGED_ROWS)
    some = Batch(held.row[::every], held.past[::every], held.ahead[::every])
    fitted.network.eval()
    return float(np.square(some.ahead - fitted.predict(some)).mean())


def _loss(
    fitted: Fitted,
    rows: I64,
    variates: I64,
) -> Tensor:
    batch = _batch(fitted.data, rows, fitted.steps)
    added = fitted.network(*_inputs(fitted, batch, variates))
    chosen = np.arange(rows.size)
    own = batch._replace(past=batch.past[chosen, :, variates][..., None])
    left = batch.ahead[chosen, :, variates] - fitted.linear.predict(own)[..., 0]
    return torch.mean((torch.from_numpy((left / fitted.unit).astype(np.float32)) - added) ** 2)


def _added(fitted: Fitted, batch: Batch, variates: I64) -> F64:
    """[B, steps] of one variate each, to add to the linear model."""
    with torch.no_grad():
        output = fitted.network(*_inputs(fitted, batch, variates)).numpy().astype(np.float64)
    added: F64 = output * fitted.unit
    return added


def _inputs(fitted: Fitted, batch: Batch, variates: I64) -> tuple[Tensor, Tensor, Tensor]:
    data = fitted.data
    chosen = np.arange(batch.row.size)
    values = batch.past[chosen, :, variates]
    level = (values - values[:, -1:]) / fitted.unit
    past_rows = batch.row[:, None] + np.arange(-data.protocol.past, 0)
    patches = fitted.patches
    patch = fitted.steps // patches
    ahead_rows = batch.row[:, None] + patch * np.arange(patches)
    position = np.broadcast_to(np.linspace(0, 1, patches), ahead_rows.shape)
    mean = np.broadcast_to(level.mean(axis=1, keepdims=True), ahead_rows.shape)
    given = np.stack([position, mean], axis=-1)
    past = np.concatenate([level[..., None], _calendar(data, past_rows)], axis=-1)
    future = np.concatenate([given, _calendar(data, ahead_rows)], axis=-1)
    static = np.eye(data.values.shape[1])[variates]
    first, second, third = (
        torch.from_numpy(each.astype(np.float32)) for each in (past, future, static)
    )
    return first, second, third


def _calendar(data: Data, rows: I64) -> F64:
    """[..., CALENDAR] time of the day and of the week."""
    day = 24 * 60
    minute = data.first_minute + rows * (day // data.protocol.steps_a_day)
    angles = [2 * np.pi * minute / period for period in (day, _WEEK)]
    return np.stack([wave(angle) for angle in angles for wave in (np.sin, np.cos)], axis=-1)

"""The Temporal Fusion Transformer, top to bottom (Lim et al. 2021, arXiv:1912.09363).

Each input variable is embedded and passes through its own gated residual network; a selection
network weighs them, given the static context. An LSTM reads the past and continues into the known
future; static enrichment, one layer of interpretable attention (heads share their values, so the
mean of their weights shows where the model looks) and a feed-forward layer follow, each with a gate
that can switch it off. Quantiles cannot cross: the outer ones are at a positive distance from the
median.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  the customary name

OUTPUTS: Final = 4
"""Per minute ahead: .1, .5 and .9 quantile, and .9 quantile of the highest minute until then."""
LOW, MEDIAN, HIGH, PEAK = range(OUTPUTS)


class Shape(NamedTuple):
    """Inputs and size of the network."""

    past: int
    """Variables of a past window."""
    future: int
    """Variables of a minute ahead."""
    static: int
    windows: int
    """Past windows; the first variable of each is its level."""
    ahead: int
    """Minutes ahead."""
    changes: tuple[int, ...]
    """Indices of the variables of a minute ahead that are changes since the origin."""
    levels: tuple[int, ...]
    """Indices of those that are earlier levels, such as half an hour or some hours ago."""
    hidden: int = 32
    heads: int = 4
    dropout: float = 0.1


class Outputs(NamedTuple):
    """B rows, F minutes ahead, P past windows, d hidden."""

    quantiles: Tensor
    """[B, F, OUTPUTS] logarithms of ratios to the recent level."""
    hidden: Tensor
    """[B, F, d] state that the quantiles are read from."""
    attention: Tensor
    """[B, F, P + F] attention of each minute ahead."""
    past_weights: Tensor
    """[B, P, past] weights of the variables."""
    future_weights: Tensor
    """[B, F, future]."""


class Gate(nn.Module):
    """A gated linear unit, added to its alternative and normalised."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.linear = nn.Linear(width, 2 * width)
        self.norm = nn.LayerNorm(width)

    def forward(self, new: Tensor, old: Tensor) -> Tensor:
        """`old` plus as much of `new` as the gate lets through."""
        gated: Tensor = self.norm(old + F.glu(self.linear(self.drop(new)), dim=-1))
        return gated


class Residual(nn.Module):
    """A gated residual network: nonlinear only where it helps."""

    def __init__(self, width: int, dropout: float, context: bool = False) -> None:
        super().__init__()
        self.first = nn.Linear(width, width)
        self.context = nn.Linear(width, width, bias=False) if context else None
        self.second = nn.Linear(width, width)
        self.gate = Gate(width, dropout)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        """[..., width]; a context is added before the nonlinearity."""
        inner = self.first(x)
        if self.context is not None and context is not None:
            inner = inner + self.context(context)
        gated: Tensor = self.gate(self.second(F.elu(inner)), x)
        return gated


class Selection(nn.Module):
    """Variable selection: a small residual network per variable, weighted by the context.

    All variables are computed in one batched product; a loop over them would take ten times longer.
    """

    def __init__(self, variables: int, width: int, dropout: float) -> None:
        super().__init__()
        self.embed = nn.Parameter(torch.randn(variables, width) * 0.5)
        self.shift = nn.Parameter(torch.randn(variables, width) * 0.1)
        # A layer on a single number needs no matrix.
        self.first = nn.Parameter(torch.randn(variables, width) * 0.5)
        self.bias = nn.Parameter(torch.randn(variables, width) * 0.1)
        self.second = nn.Parameter(torch.randn(variables, width, 2 * width) / width**0.5)
        self.norm = nn.LayerNorm(width)
        self.scores = nn.Linear(variables, width)
        self.context = nn.Linear(width, width, bias=False)
        self.weigh = nn.Linear(width, variables)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        """[B, T, variables] and [B, 1, width] to [B, T, width], and the weights."""
        rows, steps, variables = x.shape
        weights = torch.softmax(self.weigh(F.elu(self.scores(x) + self.context(context))), dim=-1)
        by_variable = x.reshape(rows * steps, variables).t().unsqueeze(-1)
        embedded = by_variable * self.embed.unsqueeze(1) + self.shift.unsqueeze(1)
        inner = self.drop(F.elu(by_variable * self.first.unsqueeze(1) + self.bias.unsqueeze(1)))
        processed = self.norm(embedded + F.glu(torch.bmm(inner, self.second), dim=-1))
        chosen = weights.reshape(rows * steps, variables).t().unsqueeze(-1) * processed
        return chosen.sum(dim=0).view(rows, steps, -1), weights


class Attention(nn.Module):
    """Interpretable multi-head attention of the minutes ahead to everything up to them."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, self.size)
        self.out = nn.Linear(self.size, width, bias=False)

    def forward(self, ahead: Tensor, all_steps: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """`hidden` [F, P + F] is very negative where a minute must not attend, else 0."""
        rows, steps = ahead.shape[0], ahead.shape[1]
        query = self.query(ahead).view(rows, steps, self.heads, self.size)
        key = self.key(all_steps).view(rows, -1, self.heads, self.size)
        scores = torch.einsum("bfhd,bphd->bhfp", query, key) / self.size**0.5 + hidden
        weights = torch.softmax(scores, dim=-1).mean(dim=1)
        return self.out(weights @ self.value(all_steps)), weights


class TemporalFusionTransformer(nn.Module):
    """From the inputs of `models.forecaster.learned.inputs` to quantiles."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width, dropout = shape.hidden, shape.dropout
        self.static = Residual(width, dropout)
        self.static_in = nn.Linear(shape.static, width)
        self.selecting, self.enriching = Residual(width, dropout), Residual(width, dropout)
        self.first_state, self.first_cell = Residual(width, dropout), Residual(width, dropout)
        self.select_past = Selection(shape.past, width, dropout)
        self.select_future = Selection(shape.future, width, dropout)
        self.encoder = nn.LSTM(width, width, batch_first=True)
        self.decoder = nn.LSTM(width, width, batch_first=True)
        self.after_lstm = Gate(width, dropout)
        self.enrich = Residual(width, dropout, context=True)
        self.attention = Attention(width, shape.heads)
        self.after_attention = Gate(width, dropout)
        self.feed_forward = Residual(width, dropout)
        self.last = Gate(width, dropout)
        self.head = nn.Linear(width, OUTPUTS)
        # A shortcut: a mean of recent and earlier levels, weighted by the character of the traffic.
        # The deep part learns the remainder.
        levels = shape.windows + len(shape.levels)
        self.smooth = nn.Linear(width, shape.ahead * levels)
        # The current state changes these weights: after a jump only the newest minutes count.
        self.look = nn.Linear(width, levels, bias=False)
        nn.init.zeros_(self.look.weight)
        self.levels = list(shape.levels)
        # Gates on the changes of earlier days and events, by their inputs.
        self.trust = nn.Linear(shape.future + width, len(shape.changes))
        nn.init.zeros_(self.trust.weight)
        # Announced and earlier changes are trusted by 18 % until training says otherwise.
        nn.init.constant_(self.trust.bias, -1.5)
        self.changes = list(shape.changes)
        # Untrained, the deep part adds only a constant to the shortcuts.
        nn.init.zeros_(self.head.weight)

    def forward(self, past: Tensor, future: Tensor, static: Tensor) -> Outputs:
        """[B, P, past], [B, F, future] and [B, static]."""
        steps, ahead = past.shape[1], future.shape[1]
        context = self.static(self.static_in(static))
        selecting = self.selecting(context).unsqueeze(1)
        old, past_weights = self.select_past(past, selecting)
        new, future_weights = self.select_future(future, selecting)
        state = (
            self.first_state(context).unsqueeze(0),
            self.first_cell(context).unsqueeze(0),
        )
        encoded, state = self.encoder(old, state)
        decoded, _ = self.decoder(new, state)
        local = self.after_lstm(torch.cat([encoded, decoded], 1), torch.cat([old, new], 1))
        enriched = self.enrich(local, self.enriching(context).unsqueeze(1))
        # A minute ahead attends to the past, to earlier minutes ahead and to itself.
        later = torch.triu(torch.full((ahead, ahead), -1e9, device=past.device), diagonal=1)
        hidden = torch.cat([torch.zeros(ahead, steps, device=past.device), later], dim=1)
        attended, attention = self.attention(enriched[:, steps:], enriched, hidden)
        combined = self.after_attention(attended, enriched[:, steps:])
        final = self.last(self.feed_forward(combined), local[:, steps:])
        logits = self.look(final) + self.smooth(context).view(-1, ahead, self.look.out_features)
        weights = torch.softmax(logits, dim=-1)
        level = (weights[..., :steps] @ past[..., :1]).squeeze(-1)
        earlier = weights[..., steps:] * future[..., self.levels]
        given = torch.cat([future, context.unsqueeze(1).expand(-1, ahead, -1)], dim=-1)
        trusted = torch.sigmoid(self.trust(given)) * future[..., self.changes]
        # One by one: the rounding of a sum over few elements depends on its alignment in memory,
        # and a forecast must not depend on the other rows of its batch.
        for part in (*earlier.unbind(dim=-1), *trusted.unbind(dim=-1)):
            level = level + part
        quantiles = _ordered(self.head(final), level)
        return Outputs(quantiles, final, attention, past_weights, future_weights)


class Ensemble(nn.Module):
    """The average of networks that were trained separately, so that their errors differ."""

    def __init__(self, members: Sequence[TemporalFusionTransformer]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, past: Tensor, future: Tensor, static: Tensor) -> Outputs:
        """Mean of the members' outputs."""
        outputs = [member(past, future, static) for member in self.members]
        return Outputs(*(torch.stack(parts).mean(dim=0) for parts in zip(*outputs, strict=True)))


def _ordered(raw: Tensor, level: Tensor) -> Tensor:
    """[B, F, OUTPUTS] with ascending quantiles and peaks, each peak at least the high quantile."""
    median = raw[..., MEDIAN] + level
    low = median - F.softplus(raw[..., LOW])
    high = median + F.softplus(raw[..., HIGH])
    peak = _running_maximum(high + F.softplus(raw[..., PEAK]))
    return torch.stack([low, median, high, peak], dim=-1)


def _running_maximum(values: Tensor) -> Tensor:
    """[B, F] along the minutes ahead; ONNX has no operator for it."""
    highest = [values[:, 0]]
    for step in range(1, values.shape[1]):
        highest.append(torch.maximum(highest[-1], values[:, step]))
    return torch.stack(highest, dim=1)

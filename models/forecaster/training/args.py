"""How a model is trained. Without torch, so that a command can say what it would do."""

from typing import NamedTuple


class Args(NamedTuple):
    """How a model is trained; part of its card."""

    seed: int = 0
    """Of the windows that are drawn, and of the members, of which each has its own."""
    members: int = 3
    """Networks that are trained apart and averaged."""
    epochs: int = 16
    steps: int = 480
    """Per epoch."""
    batch: int = 256
    learning_rate: float = 3e-3
    weight_decay: float = 1e-3
    patience: int = 6
    """Epochs without a better judgement after which it stops."""
    hidden: int = 32
    heads: int = 4
    dropout: float = 0.15
    threads: int = 2
    anonymous: float = 0.1
    """Share of windows in which priority and domain are not told."""
    uncalendared: float = 0.05
    """Share of windows in which nothing is told of the calendar."""
    young: float = 0.05
    """Share of windows without yesterday and last week, as of a service that is new."""
    clockless: float = 0.15
    """Share of windows in which the time is not told: few events are soon learned by their hour."""

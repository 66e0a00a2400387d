"""Settings of a training run, in a module without torch: the command line shows them."""

from typing import NamedTuple


class Args(NamedTuple):
    """Settings of a training run; part of the model's card."""

    seed: int = 0
    """Seed of the sampled windows; each member derives its own."""
    members: int = 3
    """Networks that are trained separately and averaged."""
    epochs: int = 16
    steps: int = 480
    """Steps per epoch."""
    batch: int = 256
    learning_rate: float = 3e-3
    weight_decay: float = 1e-3
    patience: int = 6
    """Epochs without a better validation loss after which training stops."""
    hidden: int = 32
    heads: int = 4
    dropout: float = 0.15
    threads: int = 2
    anonymous: float = 0.1
    """Share of windows without priority and domain."""
    uncalendared: float = 0.05
    """Share of windows without a calendar."""
    young: float = 0.05
    """Share of windows without yesterday and last week, as for a new service."""
    clockless: float = 0.15
    """Share of windows without the time of day, because a network memorises rare events by hour."""

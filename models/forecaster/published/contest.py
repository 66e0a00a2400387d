"""Models under a published protocol, scored on the parts that a file holds."""

from collections.abc import Callable, Iterator

from models.forecaster.published.linear import Model, Repeat, fit_linear
from models.forecaster.published.protocols import Data, Scores, Tally, windows

Ready = Callable[[int], Model]
"""A model for so many steps ahead."""


def simple(data: Data) -> dict[str, Ready]:
    """Those that need no torch."""
    return {"repeat-last": Repeat, "dlinear-like": lambda steps: fit_linear(data, steps)}


def scored(data: Data, name: str, ready: Ready) -> Iterator[Scores]:
    """A model at every horizon of the tables, on every part that is here."""
    for steps in data.protocol.ahead:
        model = ready(steps)
        for split, rows in data.parts.items():
            tally = Tally(data)
            for batch in windows(data, rows, steps):
                tally.add(batch.ahead, model.say(batch))
            yield tally.scores(name, split, steps)

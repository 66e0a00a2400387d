"""Now continues: the forecast to beat, and the one that is never far off for long."""

from typing import Final

from models.forecaster.past import Past
from models.forecaster.rule import flat_rule
from models.forecaster.scaled import Scaled

NAME: Final = "persistence"
_WINDOW_MIN: Final = 2
"""One minute carries its own noise into every horizon; more of them lag behind."""


def persistence(past: Past, tick_s: int) -> Scaled:
    """A forecaster that says what it sees, as uncertain as that was on the days before."""
    return Scaled(NAME, flat_rule(past, _WINDOW_MIN), past.recent, tick_s)

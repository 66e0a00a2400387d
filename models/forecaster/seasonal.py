"""The same minute of the days before, at today's level."""

from typing import Final

from models.forecaster.past import Past
from models.forecaster.rule import Rule, seasonal_rule
from models.forecaster.scaled import Scaled

NAME: Final = "seasonal"
_WINDOW_MIN: Final = 3
"""On ordinary days 15 minutes err up to a tenth less; a level that has jumped is seen sooner."""


def seasonal(past: Past, tick_s: int) -> Scaled:
    """A forecaster that knows the time of day, as uncertain as that was on the days before."""
    return Scaled(NAME, seasonal_course(past), past.recent, tick_s)


def seasonal_course(past: Past) -> Rule:
    """The rule of this forecaster, for those that add something to it."""
    return seasonal_rule(past, _WINDOW_MIN)

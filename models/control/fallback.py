"""How far decisions fall back when what they are based on is in doubt, and what each level uses.

The breakers choose the level (`models/control/breaker/fallback.py`); Commander and Soldiers obey it
through the functions below. Without a doubt each function returns what it was given. A level only
takes away what raises a decision or what a policy changed about it, so a lower level never plans
less than is needed now. E environments, D domains, A apps.
"""

from enum import IntEnum

import numpy as np

from models.cluster.arrays import F64, I8, I32, Mask
from models.control.budget import Directive
from models.control.residual import Residual
from models.forecaster.port import Forecast


class Level(IntEnum):
    """What may decide at most, the least restricted first. Numbers are saved in states."""

    POLICY = 0
    """Everything: a learned policy, where there is one, on the heuristic with its forecasts."""
    HEURISTIC = 1
    """The heuristic alone; a policy's residual is ignored."""
    REACTIVE = 2
    """The heuristic without forecasts: what is needed now, and every floor."""
    HOLD = 3
    """Nothing: the breaker freezes what is planned, which is the same as in REACTIVE."""

    @property
    def label(self) -> str:
        """Its name in events."""
        return self.name.lower()


# numpy looks for a dozen attributes of an enumeration's member in every comparison.
_HEURISTIC, _REACTIVE = int(Level.HEURISTIC), int(Level.REACTIVE)


def no_fallback(environments: int, domains: int) -> I8:
    """[E, D] everything may decide."""
    return np.zeros((environments, domains), np.int8)


def usable_residual(residual: Residual, level: I8, domain: I32) -> Residual:
    """A policy's residual, neutral in domains that do without; `domain` [E, A] is each app's."""
    without = level >= _HEURISTIC
    if not without.any():
        return residual
    rows = np.arange(domain.shape[0])[:, None]
    alone = without[rows, domain]
    # Spare nodes are the whole cluster's: no policy lowers them for a domain that does without it.
    any_without: Mask = without.max(axis=1, keepdims=True)
    return Residual(
        headroom=_neutral_where(without, residual.headroom),
        urgency=_neutral_where(without, residual.urgency),
        need=_neutral_where(alone, residual.need.astype(np.float64)).astype(np.float32),
        cpu=_neutral_where(alone, residual.cpu.astype(np.float64)).astype(np.float32),
        comfort=_neutral_where(without, residual.comfort),
        spare=_neutral_where(any_without, residual.spare),
        pods=_unbelieved_where(without, residual.pods),
        nodes=_unbelieved_where(without, residual.nodes),
    )


def usable_forecast(forecast: Forecast | None, level: I8) -> Forecast | None:
    """Forecasts, NaN in domains that do without them: that predicts nothing."""
    without = level >= _REACTIVE
    if forecast is None or not without.any():
        return forecast
    return forecast._replace(
        domain=np.where(without[..., None, None], np.float32(np.nan), forecast.domain),
        domain_peak=np.where(without[..., None], np.float32(np.nan), forecast.domain_peak),
    )


def usable_directive(directive: Directive, level: I8, cushion: F64) -> Directive:
    """A directive without what forecasts added to it, in domains that do without them.

    The Commander drops a forecast with its next directive; a Soldier need not wait for that. Of the
    headroom, insurance and the `cushion` [D] stay: neither depends on a forecast.
    """
    without = level >= _REACTIVE
    if not without.any():
        return directive
    budget = directive.budget
    standing = np.minimum(budget.headroom, budget.insured + cushion)
    return directive._replace(
        budget=budget._replace(headroom=np.where(without, standing, budget.headroom)),
        growth=np.where(without, 1.0, directive.growth),
    )


def _neutral_where(without: Mask, factor: F64) -> F64:
    # A field without columns changes nothing anyway.
    return factor if factor.shape[1] == 0 else np.where(without, 1.0, factor)


def _unbelieved_where(without: Mask, weight: F64) -> F64:
    return weight if weight.shape[1] == 0 else np.where(without[..., None], 0.0, weight)

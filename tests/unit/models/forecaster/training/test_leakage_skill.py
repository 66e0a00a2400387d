"""What a leak would be worth: the shipped model's skill on its inputs and on as-of inputs."""

from functools import cache

import numpy as np
import pytest

from models.cluster.arrays import F64, I64
from models.cluster.calendar import DAY_MINUTES
from models.forecaster.learned.artefact import NETWORK, SHIPPED, load_model
from models.forecaster.learned.encode import encode, encode_last
from models.forecaster.learned.inputs import NetworkInputs, joined
from models.forecaster.port import MEDIAN
from models.forecaster.score.windows import targets
from models.forecaster.series import Announced, Series
from models.forecaster.training.leakage import Encode

pytestmark = pytest.mark.skipif(not (SHIPPED / NETWORK).exists(), reason="no model is shipped")

MOST_DIFFERENCE = 0.03
"""Largest relative difference of the skill; a larger one means that inputs leak."""
LEAST_SKILL = 0.05
"""Smallest skill for which a relative difference means anything."""
EVERY_MIN = 23
"""Minutes between two origins; coprime to the hour."""


@cache
def traffic() -> Series:
    """Noisy days that wander, with sales that are announced two minutes before they begin."""
    draw = np.random.default_rng(7)
    minutes = np.arange(3 * DAY_MINUTES)
    slow = np.convolve(draw.normal(0, 0.08, minutes.size), np.ones(30) / 30**0.5, "same")
    rps = (100 + 40 * np.sin(2 * np.pi * minutes / DAY_MINUTES)) * np.exp(slow)
    rps *= draw.gamma(60.0, 1 / 60.0, minutes.size)
    starts = range(DAY_MINUTES + 400, minutes.size - 60, 240)
    for start in starts:
        rps[start : start + 40] *= 2.0
    calendar = tuple(Announced(start, start + 40, 2.0, "sale", start - 2) for start in starts)
    return Series("made up", 27_000_000, 1, rps, calendar)


def origins() -> I64:
    return np.arange(2 * DAY_MINUTES, traffic().rps.size - 31, EVERY_MIN)


@cache
def encoded_as_of(encode: Encode) -> NetworkInputs:
    """Encoded one by one, from the series cut at each origin."""
    cut = [(traffic().until(int(at) + 1), np.array([at])) for at in origins()]
    return joined([encode(series, at) for series, at in cut])


def as_served(series: Series, at: I64) -> NetworkInputs:
    """Encoded as a service does, which has no later minutes."""
    return encode_last([series.until(int(minute) + 1) for minute in at])


def skill(inputs: NetworkInputs) -> float:
    """Share by which the model's median errs less than the last value."""
    series, at = traffic(), origins()
    predicted = load_model().network.predict(inputs).values[..., MEDIAN]
    return 1 - error(predicted) / error(series.rps[at][:, None])


def error(predicted: F64) -> float:
    return float(np.abs(targets(traffic(), origins()) - predicted).mean())


def difference(encode: Encode) -> float:
    """Relative difference of the skill on whole-series inputs from that on as-of inputs."""
    return skill(encode(traffic(), origins())) / skill(encoded_as_of(encode)) - 1


def centred_smoothing(series: Series, at: I64) -> NetworkInputs:
    """Noise is smoothed away by the minutes on both sides."""
    around = np.convolve(np.pad(series.rps, 5, "edge"), np.ones(11) / 11, "valid")
    return encode(series._replace(rps=around), at)


def final_calendar(series: Series, at: I64) -> NetworkInputs:
    """The calendar as it stood in the end, not as it stood at the origin."""
    final = tuple(entry._replace(announced_from_min=0) for entry in series.calendar)
    return encode(series._replace(calendar=final), at)


@pytest.mark.parametrize("inputs", [encode, as_served])
def test_the_skill_of_the_shipped_model_does_not_come_from_the_future(inputs: Encode) -> None:
    of_whole, of_known = skill(inputs(traffic(), origins())), skill(encoded_as_of(encode))
    assert of_known > LEAST_SKILL
    assert of_whole == pytest.approx(of_known, rel=MOST_DIFFERENCE)


@pytest.mark.parametrize("leaky", [centred_smoothing, final_calendar])
def test_leaking_inputs_change_the_skill(leaky: Encode) -> None:
    assert abs(difference(leaky)) > MOST_DIFFERENCE

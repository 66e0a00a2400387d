import numpy as np

from models.cluster.calendar import HISTORY_MINUTES
from services.forecaster.model import filled_history


def test_gaps_at_the_beginning_of_a_history_repeat_its_first_recorded_minute() -> None:
    history = filled_history([[None, None, 50.0, None, 70.0]])
    assert history.shape == (1, 1, HISTORY_MINUTES)
    assert history[0, 0, -5:].tolist() == [50.0, 50.0, 50.0, 50.0, 70.0]
    assert np.all(history[0, 0, :-5] == 50.0)


def test_a_history_without_any_recorded_minute_is_zero() -> None:
    assert not filled_history([[None, None], []]).any()

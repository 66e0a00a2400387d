"""Why replicas stay as they are."""

import numpy as np
import pytest

from models.cluster import rows
from models.cluster.plan import Reason
from models.control.safety import Apps, Wishes
from models.control.sizing import Damping, start_sizing_memory, wish_replicas
from models.features.table import APP

NOW = 20


def reason_of(need: float, peak: float, missing: float = 0.0) -> Reason:
    """Of an app with twenty pods that needs these now, and needed those some minutes ago."""
    status = np.zeros((rows.STATUS, 1), np.int32)
    status[rows.ACTIVE], status[rows.REPLICAS] = 1, NOW
    features = np.zeros((APP.width, 1), np.float32)
    features[APP.at("active")], features[APP.at("missing")] = 1.0, missing
    load = np.full(1, need, np.float32)
    apps = Apps(0, status, features[APP.at("missing")], load, np.zeros(1, np.int8))
    memory = start_sizing_memory(1, 1)
    memory.need[:], memory.highest[0, 0] = need, peak
    ones = np.ones(1, np.float32)
    damping = Damping(
        np.float32(0.1), ones, np.float32(0.1), np.float32(0.05), ones * np.inf, ones,
        use_window=True, rest_first=np.zeros(1, np.int8), modest_ticks=0,
    )  # fmt: skip
    numbers = [np.zeros(1, np.int32) for _ in range(4)]
    wishes = Wishes(*numbers)
    rested, urgency = np.zeros(1, np.int32), np.zeros(1, np.float32)
    wish_replicas(apps, features, memory, 0, rested, urgency, damping, wishes)
    return Reason(int(wishes.reason[0]))


@pytest.mark.parametrize(
    ("need", "peak", "reason"),
    [
        (18.0, 18.0, Reason.HOLD_IN_TOLERANCE),
        (10.0, 18.0, Reason.HOLD_STABILISING),
        (10.0, 10.0, Reason.SCALE_IN),
        (30.0, 30.0, Reason.SCALE_OUT),
    ],
)
def test_the_need_of_the_last_minutes_is_why_pods_stay_that_are_not_needed_now(
    need: float, peak: float, reason: Reason
) -> None:
    assert reason_of(need, peak) == reason


def test_without_a_sample_that_is_the_reason() -> None:
    assert reason_of(10.0, 18.0, missing=1.0) == Reason.HOLD_NO_METRICS

"""Settings of the breaker."""

import msgspec
import pytest

from models.control.breaker.cluster import ClusterThresholds
from models.control.breaker.limits import Thresholds
from services._kit.clock import ManualClock
from services._kit.errors import BadSettings
from services._kit.settings import KitSettings, load
from services.breaker.app import build
from services.breaker.settings import Settings
from tests.unit.services.breaker.breaker_helpers import (
    DOMAIN,
    frame,
)


def test_settings_are_the_thresholds_and_nothing_else() -> None:
    assert Settings().thresholds == Thresholds()
    own = {field.name for field in msgspec.structs.fields(Settings)}
    assert Settings().cluster_thresholds == ClusterThresholds()
    assert own == {
        *Thresholds._fields, *ClusterThresholds._fields, "stale_seconds", "cluster",
    }  # fmt: skip
    _, changed = load("breaker", Settings, {"HIRL_BREAKER_ERROR_SHARE": "0.4"})
    assert changed.thresholds.error_share == 0.4


@pytest.mark.parametrize(
    ("field", "value"),
    [("ERROR_TICKS", 1), ("BURN_SHORT_TICKS", 999), ("QUIET_TICKS", 999), ("ERROR_SHARE", 2)],
)
def test_settings_that_would_make_it_unsafe_are_refused(field: str, value: int) -> None:
    with pytest.raises(BadSettings):
        load("breaker", Settings, {f"HIRL_BREAKER_{field}": str(value)})


def test_speed_shortens_the_stale_time_and_lock_step_disables_it() -> None:
    handler = build(KitSettings(speed=10.0), Settings()).handler
    state = handler.handle(frame(0), handler.start(DOMAIN), ManualClock(100.0)).state
    assert handler.due(state) == pytest.approx(106.0)
    assert build(KitSettings(lock_step=True), Settings()).handler.due(state) is None

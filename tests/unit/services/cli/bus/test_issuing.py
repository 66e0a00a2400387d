"""Every order names one scope and how long it holds."""

from datetime import timedelta

import pytest

from models.inputs.errors import InputError
from services.admin.orders import Scope
from services.cli.bus.issuing import duration_of, scope_of


@pytest.mark.parametrize(("text", "minutes"), [("30m", 30), ("4h", 240), ("2d", 2880)])
def test_durations_are_read(text: str, minutes: int) -> None:
    assert duration_of(text) == timedelta(minutes=minutes)


@pytest.mark.parametrize("text", ["", "4", "h", "-4h", "4w", "1.5h"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="30m, 4h or 2d"):
        duration_of(text)


def test_exactly_one_scope_has_to_be_named() -> None:
    assert scope_of(None, None, "payments", cluster=False) == Scope("domain", "payments")
    with pytest.raises(InputError, match="got 0"):
        scope_of(None, None, None, cluster=False)
    with pytest.raises(InputError, match="got 2"):
        scope_of("a", None, None, cluster=True)

"""What all explorations share."""

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    # Faults and lost states are logged, some hundred thousand times.
    with caplog.at_level("CRITICAL", "services"):
        yield

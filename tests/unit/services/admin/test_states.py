import numpy as np
import pytest

from models.inputs.errors import InputError
from services._kit.state_codec import encode
from services.admin import states
from services.admin.states import abbreviated, decoded, issuer, order_reset
from services.forecaster.progress import no_minutes


def test_arrays_and_long_lists_of_a_state_are_abbreviated() -> None:
    state = decoded(encode(no_minutes(5)._replace(rps=np.zeros((5, 60), np.float32))))
    shown = abbreviated({"recent": state, "names": list("abcdef"), "nothing": None})
    assert shown["recent"]["rps"]["array"] == "float32 (5, 60)"
    assert shown["recent"]["rps"]["first"] == [0.0] * 4 + ["..."]
    assert shown["names"] == ["a", "b", "c", "d", "... 6 in all"]
    assert shown["nothing"] is None


def test_the_collectors_progress_is_decoded_too() -> None:
    assert decoded(b'{"tick":17}') == {"tick": 17}


def test_an_order_names_the_authenticated_user_and_says_when_there_is_none() -> None:
    assert issuer({"sasl_plain_username": "ops"}) == "ops"
    assert issuer({}).endswith("(not authenticated)")


@pytest.mark.parametrize(("service", "reason"), [("collector", "why"), ("soldier", " ")])
def test_an_order_needs_a_resettable_service_and_a_reason(service: str, reason: str) -> None:
    with pytest.raises(InputError):
        order_reset({}, service, "payments", reason, 0.0)


def test_an_unknown_service_is_an_error_that_names_the_others() -> None:
    with pytest.raises(InputError, match="expected one of"):
        states.read_state({}, "nobody", "payments")


@pytest.mark.parametrize(
    "forged", [b"", b"\x91" * 10**6, b"\xc7\x01\x02x", b"\xc7\x02\x01\x93\xa1", b"\xff\xfe"]
)
def test_a_forged_state_is_one_line(forged: bytes) -> None:
    with pytest.raises(InputError, match="wrong form"):
        decoded(forged)

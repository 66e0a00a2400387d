"""An open network answers within its ranges, or not at all."""

import numpy as np
import pytest

from models.inputs.errors import InputError
from models.registry.load import verified
from models.registry.parity import difference
from models.registry.session import Fault, Session, open_session
from tests.planted_models import (
    FEATURES,
    TRUST,
    artefact_of,
    files_of,
    linear_policy,
    manifest_of,
    samples_of,
)


def states(rows: int = 1, domains: int = 5) -> dict[str, np.ndarray]:
    return {"features": np.ones((rows, domains, FEATURES), np.float32)}


def test_outputs_have_the_rows_and_domains_of_the_input() -> None:
    session = Session(artefact_of(linear_policy(1.25, 0.75)))
    for rows, domains in ((1, 5), (64, 3), (1, 12), (1, 5)):
        found = session.run(states(rows, domains))
        assert found["headroom"].shape == (rows, domains)
        assert (found["headroom"] == np.float32(1.25)).all()
        assert (found["urgency"] == np.float32(0.75)).all()


def test_the_same_rows_give_the_same_bits_whatever_was_asked_before() -> None:
    session = Session(artefact_of(linear_policy(slope=0.01)))
    first = session.run(states())["headroom"].copy()
    session.run({"features": states()["features"] * 3})
    np.testing.assert_array_equal(session.run(states())["headroom"], first)


@pytest.mark.parametrize(
    ("headroom", "complaint"),
    [(2.5, "above 1.25"), (0.25, "below 0.8"), (1e30, "above 1.25"), (-1e30, "below 0.8")],
)
def test_an_answer_out_of_its_range_is_a_fault(headroom: float, complaint: str) -> None:
    with pytest.raises(Fault, match=complaint):
        Session(artefact_of(linear_policy(headroom))).run(states())


@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
def test_an_answer_that_is_no_number_is_a_fault(value: float) -> None:
    session = Session(artefact_of(linear_policy(slope=1.0)))
    with pytest.raises(Fault, match="no number"):
        session.run({"features": np.full((1, 5, FEATURES), value, np.float32)})


def test_features_of_another_width_are_a_fault_and_the_next_call_works() -> None:
    session = Session(artefact_of(linear_policy()))
    with pytest.raises(Fault, match="failed"):
        session.run({"features": np.ones((1, 5, FEATURES + 1), np.float32)})
    assert (session.run(states())["headroom"] == 1).all()


def test_a_network_that_differs_from_its_samples_is_not_opened() -> None:
    network = linear_policy(1.25, 1.25)
    for expected, good in ((1.25, True), (1.2501, True), (1.26, False)):
        files = files_of(network, manifest_of(network), extra=samples_of(expected))
        artefact = verified(files, TRUST, "x")
        if good:
            open_session(artefact)
        else:
            with pytest.raises(InputError, match="differs from its samples by"):
                open_session(artefact)


def test_a_difference_is_infinite_where_shapes_or_numbers_do_not_match() -> None:
    one, nan = np.ones(3, np.float32), np.full(3, np.nan, np.float32)
    assert difference({"a": one}, {"a": one}) == 0
    assert difference({"a": one[:2]}, {"a": one}) == np.inf
    assert difference({}, {"a": one}) == np.inf
    assert difference({"a": nan}, {"a": one}) == np.inf

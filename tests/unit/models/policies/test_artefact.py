"""Policies are opened only if they are what their card says."""

from pathlib import Path

import msgspec
import numpy as np
import onnxruntime
import pytest

from models.inputs.errors import InputError
from models.policies.artefact import CARD, Card, load_card, load_commander, load_soldier
from models.policies.contract import MEMBERS, SOLDIER_INPUTS, VERSION
from models.policies.soldier_inputs import SoldierInputs
from tests.unit.models.policies.policy_files import write_soldier


def test_a_policy_answers_for_any_number_of_domains(tmp_path: Path) -> None:
    session = load_soldier(write_soldier(tmp_path, 1.25))
    for domains in (1, 4, 12):
        sizes = [[axis for axis in port.shape if isinstance(axis, int)] for port in SOLDIER_INPUTS]
        answer = session(
            SoldierInputs(*(np.ones((2, domains, *size), np.float32) for size in sizes))
        )
        np.testing.assert_array_equal(
            answer["need"], np.full((2, domains, MEMBERS), 1.25, np.float32)
        )


def test_a_folder_without_a_policy_says_how_to_train_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="hirl train commander"):
        load_commander(tmp_path)


def test_a_network_that_the_card_does_not_describe_is_refused(tmp_path: Path) -> None:
    one, other = write_soldier(tmp_path / "one", 1.25), write_soldier(tmp_path / "other", 1.3)
    (one / CARD).write_bytes((other / CARD).read_bytes())
    with pytest.raises(InputError, match="is another one"):
        load_soldier(one)


def test_a_soldiers_policy_is_no_commanders(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is another one"):
        load_commander(write_soldier(tmp_path, 1.25))


def test_a_policy_of_another_contract_is_refused(tmp_path: Path) -> None:
    folder = write_soldier(tmp_path, 1.25)
    card = msgspec.json.decode((folder / CARD).read_bytes(), type=Card)
    older = msgspec.structs.replace(card, contract=VERSION - 1)
    (folder / CARD).write_bytes(msgspec.json.encode(older))
    with pytest.raises(InputError, match="expected contract"):
        load_card(folder, "soldier")


def test_a_graph_is_checked_before_onnxruntime_sees_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(*_: object, **__: object) -> None:
        pytest.fail("a session was made")

    monkeypatch.setattr(onnxruntime, "InferenceSession", opened)
    folder = write_soldier(tmp_path, 1.25, operator="RandomNormalLike")
    with pytest.raises(InputError, match="is not on the allow-list"):
        load_soldier(folder)

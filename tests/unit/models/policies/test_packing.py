"""A policy as training writes it becomes an artefact that a service opens."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from models.inputs.errors import InputError
from models.policies.artefact import CARD, NETWORK, Card
from models.policies.contract import INPUTS, OUTPUTS, VERSION
from models.policies.packing import FAMILIES, features_sha256, is_trained, packed
from models.registry.contract import POLICY_OUTPUTS
from models.registry.keys import Trust
from models.registry.load import Samples, verified, write_samples
from models.registry.manifest import SAMPLES, name_of
from models.registry.session import open_session
from services.cli.main import run
from tests.planted_models import commander_network

NETWORK_BYTES = commander_network(headroom=1.1)


def samples(headroom: float = 1.1) -> bytes:
    """What the network answered where it was trained."""
    lengths = {"rows": 100, "domains": 5, "pools": 3}
    states, answers = (
        {
            port.name: np.full(
                [lengths[axis] if isinstance(axis, str) else axis for axis in port.shape],
                0.0 if port.name in ("pods", "nodes") else 1.0,
                np.float32,
            )
            for port in ports
        }
        for ports in (INPUTS, OUTPUTS)
    )
    answers["headroom"][:] = headroom
    return write_samples(Samples(states, answers))


def trained(**changes: Any) -> dict[str, bytes]:
    card = Card(
        model=name_of("commander", NETWORK_BYTES),
        contract=VERSION,
        command="hirl train commander",
        args={},
        scenarios=["calm"],
        seeds=[0],
        apps=60,
        world="w" * 16,
        heuristic="x",
        decisions=1,
        minutes=1.0,
        parity=1e-6,
        curve=[],
    )
    card = msgspec.structs.replace(card, **changes)
    return {NETWORK: NETWORK_BYTES, CARD: msgspec.json.encode(card), SAMPLES: samples()}


def test_a_trained_policy_is_packed_with_samples_that_it_answers() -> None:
    files = trained()
    assert is_trained(files)
    artefact = verified(packed(files, "x"), Trust(unsigned=True), "x")
    assert artefact.name == name_of("commander", NETWORK_BYTES)
    assert artefact.states == 100
    assert artefact.manifest.features_sha256 == features_sha256("commander-policy")
    assert artefact.manifest.world_sha256 == "w" * 16
    assert not is_trained(artefact.files)
    open_session(artefact)


def test_an_export_that_differs_from_what_was_trained_shows() -> None:
    files = trained() | {SAMPLES: samples(headroom=1.2)}
    artefact = verified(packed(files, "x"), Trust(unsigned=True), "x")
    with pytest.raises(InputError, match="differs from its samples"):
        open_session(artefact)


def test_a_policy_without_answers_of_the_network_itself_is_not_packed() -> None:
    files = trained()
    del files[SAMPLES]
    with pytest.raises(InputError, match="hirl train commander"):
        packed(files, "x")


def test_a_card_of_another_network_is_refused() -> None:
    with pytest.raises(InputError, match="the network is another one"):
        packed(trained(model="commander/00000000"), "x")
    with pytest.raises(InputError, match="the network is another one"):
        packed(trained(model=name_of("breaker", NETWORK_BYTES)), "x")


def test_the_command_signs_it_and_puts_it_into_the_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "trained"
    folder.mkdir()
    for name, data in trained().items():
        (folder / name).write_bytes(data)
    (folder / "curves.html").write_text("<p>of the training</p>")
    key, store = str(tmp_path / "k"), str(tmp_path / "store")
    assert run(["models", "keygen", key]) == 0
    assert run(["models", "add", str(folder), "--key", key, "--store", store]) == 0
    (entry,) = (tmp_path / "store" / "commander-policy").iterdir()
    capsys.readouterr()
    options = ["--store", store, "--keys", f"{key}.pub"]
    assert run(["models", "verify", entry.name[:12], *options]) == 0
    assert "answers 100 samples" in capsys.readouterr().out


def test_the_registry_allows_what_the_contract_says() -> None:
    bounds = POLICY_OUTPUTS["commander-policy"]
    for port in OUTPUTS:
        bound = bounds[port.name]
        assert (len(port.shape), port.low, port.high) == (bound.rank, bound.low, bound.high)
    assert set(bounds) == {port.name for port in OUTPUTS}
    assert set(FAMILIES) == set(POLICY_OUTPUTS)
    # The features stand for the inputs: other inputs are other features.
    assert features_sha256("commander-policy") != features_sha256("soldier-policy")
    assert len(INPUTS) == 5

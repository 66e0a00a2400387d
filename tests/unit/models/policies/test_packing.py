"""A policy as training writes it becomes an artefact that a service opens."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from models.inputs.errors import InputError
from models.policies.artefact import CARD, NETWORK, Card
from models.policies.contract import INPUTS, OUTPUTS, VERSION
from models.policies.packing import FAMILIES, features_sha256, is_trained, packed
from models.registry.contract import POLICY_OUTPUTS
from models.registry.keys import Trust
from models.registry.load import verified
from models.registry.manifest import name_of
from models.registry.session import open_session
from services.cli.main import run
from tests.planted_models import commander_network

NETWORK_BYTES = commander_network(headroom=1.1)


def trained(**changes: Any) -> dict[str, bytes]:
    card = Card(
        model=name_of("commander", NETWORK_BYTES),
        contract=VERSION,
        command="hirl train commander",
        args={},
        scenarios=["calm"],
        seeds=[0],
        apps=60,
        heuristic="x",
        decisions=1,
        minutes=1.0,
        parity=1e-6,
        curve=[],
    )
    card = msgspec.structs.replace(card, **changes)
    return {NETWORK: NETWORK_BYTES, CARD: msgspec.json.encode(card)}


def test_a_trained_policy_is_packed_with_samples_that_it_answers() -> None:
    files = trained()
    assert is_trained(files)
    artefact = verified(packed(files, "x"), Trust(unsigned=True), "x")
    assert artefact.name == name_of("commander", NETWORK_BYTES)
    assert artefact.states == 100
    assert artefact.manifest.features_sha256 == features_sha256("commander-policy")
    assert not is_trained(artefact.files)
    open_session(artefact)


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

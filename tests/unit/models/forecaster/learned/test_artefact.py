"""The shipped network: the forecast of a row depends on that row alone."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from models.forecaster.learned.artefact import (
    CARD,
    NETWORK,
    SHIPPED,
    SHIPPED_VERSION,
    load_artefact,
    model_of,
    opened_artefact,
    seal,
)
from models.forecaster.learned.encode import encode
from models.forecaster.learned.features import FEATURE_NAMES
from models.forecaster.learned.inputs import NetworkInputs
from models.forecaster.series import Announced
from models.inputs.errors import InputError
from models.registry.keys import Trust, key_id, sign
from models.registry.load import verified
from models.registry.manifest import MANIFEST, SIGNATURE, read_manifest
from tests.planted_models import KEY, TRUST, features, forecaster_files
from tests.unit.models.forecaster.synthetic_series import days, series

pytestmark = pytest.mark.skipif(not (SHIPPED / NETWORK).exists(), reason="no model is shipped")


@pytest.mark.parametrize("first", [40, 43])
@pytest.mark.parametrize("rows", [1, 5, 31, 33])
def test_a_forecast_is_bit_identical_alone_and_in_a_batch(rows: int, first: int) -> None:
    session = load_artefact().session
    sales = [Announced(start, start + 40, 2.0, "sale") for start in (9000, 10_000, 11_060)]
    inputs = encode(series(days(9), *sales), np.arange(11_000, 11_100))
    together, chosen = session.predict(inputs), slice(first, first + rows)
    some = session.predict(NetworkInputs._make(part[chosen] for part in inputs))
    np.testing.assert_array_equal(some.values, together.values[chosen])
    np.testing.assert_array_equal(some.hidden, together.hidden[chosen])


def test_no_origins_give_no_forecasts() -> None:
    inputs = encode(series(days(2)), np.arange(0))
    assert load_artefact().session.predict(inputs).values.shape == (0, 3, 3)


def test_the_pinned_version_is_that_of_the_shipped_model() -> None:
    assert load_artefact().manifest.version == SHIPPED_VERSION
    assert load_artefact().manifest.name == load_artefact().card.model


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SHIPPED, tmp_path / "model"))


def test_a_service_opens_a_folder_only_with_a_signature_it_trusts(copy: Path) -> None:
    trust = Trust({key_id(KEY.public_key()): KEY.public_key()})
    with pytest.raises(InputError, match="is not signed"):
        load_artefact(copy, trust=trust)
    (copy / SIGNATURE).write_bytes(sign(SHIPPED_VERSION, KEY))
    assert load_artefact(copy, trust=trust).manifest.version == SHIPPED_VERSION
    with pytest.raises(InputError, match="trusted keys: none"):
        load_artefact(copy, trust=Trust())


@pytest.mark.parametrize("name", [CARD, NETWORK, "samples.json"])
def test_a_file_that_was_changed_is_refused_and_named(copy: Path, name: str) -> None:
    data = (copy / name).read_bytes()
    (copy / name).write_bytes(data[:-1] + b" ")
    with pytest.raises(InputError, match=f"{name}: was changed or truncated"):
        load_artefact(copy)


def test_sealing_again_gives_the_same_version_and_voids_a_signature(copy: Path) -> None:
    (copy / SIGNATURE).write_bytes(sign(SHIPPED_VERSION, KEY))
    first = seal(copy, "0.1.0")
    assert not (copy / SIGNATURE).exists()
    assert seal(copy, "0.1.0").version == first.version
    assert read_manifest((copy / MANIFEST).read_bytes(), "x") == first
    load_artefact(copy)


def test_a_network_with_the_features_of_its_training_is_opened_with_them() -> None:
    found = verified(forecaster_files(extra=features("forecaster", spread=0.2)), TRUST, "x")
    reference = model_of(opened_artefact(found, "x")).reference
    assert reference is not None
    assert (reference.version, {*reference.names}) == (found.version, {*FEATURE_NAMES})
    assert model_of(load_artefact()).reference is None


def test_a_network_with_the_features_of_another_kind_is_refused_in_one_line() -> None:
    other = features("commander-policy", spread=0.2)
    found = verified(forecaster_files(extra=other), TRUST, "x")
    with pytest.raises(InputError, match=r"features\.json: expected the features") as refused:
        opened_artefact(found, "x")
    assert "\n" not in str(refused.value)

"""Commands connect to the cluster that their arguments, a file or the environment name."""

from pathlib import Path

import pytest

from models.inputs.errors import InputError
from services.admin.credentials import named_options
from services.devcluster.connect import options_of

SECURED = {
    "HIRL_KAFKA_SECURITY": "SASL_SSL",
    "HIRL_KAFKA_USER": "operator",
    "HIRL_KAFKA_PASSWORD": "a=b",
}


@pytest.fixture
def secured(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECURED.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("secured")
@pytest.mark.parametrize("connect", [named_options, options_of])
def test_a_named_cluster_is_addressed_with_the_security_of_the_environment(
    connect: object,
) -> None:
    assert callable(connect)
    options = connect("broker:9093", None)
    assert options["security_protocol"] == "SASL_SSL"
    assert options["sasl_plain_username"] == "operator"
    assert options["sasl_plain_password"] == "a=b"  # noqa: S105  made up


def test_a_credentials_file_without_brokers_is_an_error_that_names_it(tmp_path: Path) -> None:
    file = tmp_path / "operator.env"
    file.write_text("HIRL_KAFKA_USER=operator\n")
    with pytest.raises(InputError, match=r"operator.env has no HIRL_KAFKA_BOOTSTRAP"):
        options_of(None, file)


def test_without_any_broker_the_error_says_what_to_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIRL_KAFKA_BOOTSTRAP", raising=False)
    with pytest.raises(InputError, match=r"the environment has no .* pass --bootstrap"):
        named_options(None, None)

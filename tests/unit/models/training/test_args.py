"""Settings of a training run that are changed for an ablation."""

import pytest

from models.inputs.errors import InputError
from models.training.args import SOLDIER, Args, with_settings


def test_settings_of_the_run_and_of_the_weights_are_changed_by_name() -> None:
    found = with_settings(
        SOLDIER,
        ["levers=need,cpu", "potential=0.1", "cusum=true", "smaller=60,100", "most_nodes=0"],
    )
    assert found == SOLDIER._replace(
        levers=("need", "cpu"), weights=SOLDIER.weights._replace(potential=0.1), cusum=True,
        smaller=(60, 100), most_nodes=0.0,
    )  # fmt: skip
    assert with_settings(Args(), []) == Args()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("potental=0.1", "did you mean"), ("weights=1", "expected NAME=VALUE"),
        ("potential", "expected NAME=VALUE"), ("potential=high", "set: potential"),
        ("hidden=1,2", "expected one value"),
    ],
)  # fmt: skip
def test_a_setting_that_does_not_exist_or_fit_is_refused(setting: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        with_settings(Args(), [setting])

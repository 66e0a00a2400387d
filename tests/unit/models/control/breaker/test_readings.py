"""What a tick shows of the domains."""

import math
from typing import Any

import numpy as np
import pytest

from models.control.breaker.readings import AppSamples, read

NAN = math.nan
MISMATCH_APPS = np.array([5, 5], np.int32)


def app_samples(apps: int, **columns: object) -> AppSamples:
    usual: dict[str, object] = {
        "domain": [0] * apps,
        "missing": [False] * apps,
        "rps": [1.0] * apps,
        "errors": [0.0] * apps,
        "headroom": [0.5] * apps,
        "replicas": [1] * apps,
        "cpu": [1000] * apps,
        "pending": [0] * apps,
        "accepted": [[-1]] * apps,
    }
    arrays: dict[str, Any] = {name: np.array([row]) for name, row in {**usual, **columns}.items()}
    # As in production, so that no kernel is compiled again for the test.
    whole = ("domain", "replicas", "cpu", "pending", "accepted")
    return AppSamples(**arrays | {name: arrays[name].astype(np.int32) for name in whole})


def readings_of(samples: AppSamples, domains: int = 1) -> dict[str, list[float]]:
    values = read(samples, np.zeros((1, domains)), MISMATCH_APPS[:domains])
    return {name: row[0].tolist() for name, row in values._asdict().items()}


def test_errors_and_risk_are_weighted_by_requests_within_each_domain() -> None:
    samples = app_samples(
        4, domain=[0, 0, 1, -1], rps=[30.0, 10.0, 5.0, 99.0], errors=[0.0, 0.4, 0.2, 1.0],
        headroom=[-1.0, 0.5, 0.5, -1.0],
    )  # fmt: skip
    seen = readings_of(samples, 2)
    assert seen["errors"] == pytest.approx([0.1, 0.2])
    assert seen["risk"] == pytest.approx([0.75, 0.0])


def test_a_domain_reads_the_same_bit_for_bit_alone_and_beside_others() -> None:
    rng = np.random.default_rng(0)
    columns = {
        "domain": rng.integers(0, 2, 99), "rps": rng.lognormal(5, 3, 99),
        "errors": rng.random(99), "headroom": rng.normal(size=99),
    }  # fmt: skip
    of_first = columns["domain"] == 0
    alone = {name: column[of_first] for name, column in columns.items()}
    both = readings_of(app_samples(99, **columns), 2)
    for name, values in readings_of(app_samples(int(of_first.sum()), **alone)).items():
        assert values == both[name][:1]


@pytest.mark.parametrize("column", ["rps", "errors", "headroom"])
def test_an_app_with_nan_in_its_sample_is_missing(column: str) -> None:
    assert readings_of(app_samples(2, **{column: [NAN, 0.5]}))["missing"] == [0.5]


def test_errors_are_unknown_without_samples_and_zero_without_requests() -> None:
    assert np.isnan(readings_of(app_samples(2, missing=[True, True]))["errors"][0])
    assert readings_of(app_samples(2, rps=[0.0, 0.0]))["errors"] == [0.0]


def test_a_domain_without_apps_is_unknown_not_healthy() -> None:
    assert np.isnan(readings_of(app_samples(2, domain=[0, 0]), 2)["missing"][1])


def test_mismatch_counts_apps_whose_replicas_are_none_of_those_accepted() -> None:
    accepted = [[2, -1]] * 3 + [[3, 1]] * 3 + [[-1, -1]] * 4
    assert readings_of(app_samples(10, accepted=accepted))["mismatch"] == [0.5]


def test_mismatch_ignores_missing_apps_and_too_few_changed_apps() -> None:
    assert readings_of(app_samples(4, accepted=[[2]] * 4))["mismatch"] == [0.0]
    assert readings_of(app_samples(6, accepted=[[2]] * 6, missing=[True] * 6))["mismatch"] == [0.0]

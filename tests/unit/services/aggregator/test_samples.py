from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.metrics_sampled import MEASURED, PODS
from services.aggregator.samples import TickSamples, no_samples, with_batch
from tests.service_helpers import APPS, sampled

SILENT: dict[str, Any] = {name: [] for name in PODS}


def test_sums_of_pods_do_not_depend_on_batching() -> None:
    rng, count = np.random.default_rng(0), 200
    apps = [APPS[index] for index in rng.integers(0, len(APPS), count)]
    columns = {
        name: rng.gamma(1.0, 1.0, count).tolist()
        for name in ("rps", "throughput", "errors", "latency_p50_s", "latency_p99_s", "cpu_cores")
    }
    columns["cpu_cores"][7] = None

    def batched(*edges: int) -> TickSamples:
        samples = no_samples(APPS)
        for first, end in pairwise((0, *edges, count)):
            part = slice(first, end)
            batch = sampled(
                1,
                apps=apps[part],
                pods=[f"pod-{index}" for index in range(count)[part]],
                **{name: column[part] for name, column in columns.items()},
            )
            samples = with_batch(samples, batch)
        return samples

    whole, parts = batched().measured(), batched(1, 60, 61, 150).measured()
    assert whole.tobytes() == parts.tobytes()
    counted = [sum(app == name for app in apps) for name in APPS]
    counted[APPS.index(apps[7])] -= 1
    assert whole[0, MEASURED.index("measured_pods")].tolist() == counted
    own = np.array(apps) == APPS[0]
    own[7] = False
    rps, errors = np.array(columns["rps"])[own], np.array(columns["errors"])[own]
    mean = (rps * errors).sum() / rps.sum()
    assert whole[0, MEASURED.index("errors"), 0] == pytest.approx(mean, rel=1e-6)
    slowest = np.array(columns["latency_p99_s"])[own].max()
    assert whole[0, MEASURED.index("latency_p99_s"), 0] == pytest.approx(slowest, rel=1e-6)


PER_POD: dict[str, float] = {
    "rps": 20.0,
    "throughput": 20.0,
    "errors": 0.0,
    "latency_p50_s": 0.02,
    "latency_p99_s": 0.05,
    "cpu_cores": 0.5,
    "memory_gib": 1.0,
}
USED = ("cpu_cores", "memory_gib", "latency_p99_s")
ZERO: dict[str, float | None] = dict.fromkeys(PER_POD, 0.0)


def of_pods(*pods: dict[str, float | None], without: tuple[str, ...] = ()) -> dict[str, float]:
    """Samples of an app from those of its pods, which differ from healthy ones in this."""
    columns: dict[str, Any] = {
        name: [] if name in without else [pod.get(name, usual) for pod in pods]
        for name, usual in PER_POD.items()
    }
    names = [f"pod-{number}" for number in range(len(pods))]
    apps = [APPS[0]] * len(pods)
    batch = sampled(1, apps=apps, pods=names, measured_pods=[], **SILENT, **columns)
    samples = with_batch(no_samples(APPS[:1]), batch)
    return dict(zip(MEASURED, samples.measured()[0, :, 0].tolist(), strict=True))


BAD_POD = st.one_of(
    st.just(ZERO),
    st.dictionaries(
        st.sampled_from(tuple(PER_POD)),
        st.one_of(st.none(), st.floats(-1e6, -1e-6), st.just(float("inf"))),
        min_size=1,
    ),
)


@given(bad=st.lists(BAD_POD, min_size=1, max_size=5), index=st.integers(0, 3))
def test_an_invalid_pod_never_lowers_what_its_app_uses(
    bad: list[dict[str, float | None]], index: int
) -> None:
    healthy: list[dict[str, float | None]] = [{}, {}, {"latency_p99_s": 0.4}]
    before = of_pods(*healthy)
    after = of_pods(*healthy[:index], *bad, *healthy[index:])
    assert after["measured_pods"] == before["measured_pods"] == 3
    for name in USED:
        assert after[name] == before[name]


def test_an_app_with_only_invalid_pods_is_missing() -> None:
    assert np.isnan(list(of_pods({"latency_p99_s": None}, {"latency_p99_s": None}).values())).all()
    assert np.isnan(list(of_pods({"cpu_cores": -1.5}, ZERO).values())).all()


@pytest.mark.parametrize("name", ["memory_gib", "latency_p99_s", "errors"])
def test_a_column_that_a_source_lacks_is_a_gap_but_its_pods_are_counted(name: str) -> None:
    found = of_pods({}, {}, {}, without=(name,))
    assert np.isnan(found[name])
    assert found["measured_pods"] == 3
    assert found["cpu_cores"] == 1.5

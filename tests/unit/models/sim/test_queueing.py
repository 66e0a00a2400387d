"""The queueing formulas, the tables made of them, and the tail drawn through two quantiles."""

import heapq

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from models.sim import queueing as erlang
from models.sim.kernel_math import tail

F64 = NDArray[np.float64]

SERVERS = (1, 2, 3, 5, 8, 13, 21, 34, 64, 100, 200, 500, 1000, 3000)
LOADS = tuple(np.linspace(0.05, erlang.RHO_MAX, 94))
TABLE_ERROR_MAX = 0.007
"""Promised is 2 %; measured is 0.43 % on this grid and 0.62 % over all c up to 4096."""


def simulated_responses(servers: int, utilisation: float, requests: int, seed: int) -> F64:
    """Response times of an M/M/c queue, request by request: shares nothing with the formulas."""
    rng = np.random.default_rng(seed)
    arrivals = np.cumsum(rng.exponential(1.0 / (servers * utilisation), requests))
    services = rng.exponential(1.0, requests)
    free_at = [0.0] * servers
    done = np.empty(requests)
    for i, (arrival, service) in enumerate(zip(arrivals.tolist(), services.tolist(), strict=True)):
        done[i] = max(arrival, free_at[0]) + service
        heapq.heapreplace(free_at, done[i])
    return np.asarray(done - arrivals)[requests // 20 :]


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Compile before hypothesis measures: its deadline is meant for the code, not the compiler."""
    table_quantiles(1.0, 0.5)
    tail(1.0, 2.0, 3.0)


def table_quantiles(servers: float, utilisation: float) -> tuple[float, float]:
    p50, p99 = erlang.quantiles(erlang.build_tables(), float(servers), float(utilisation))
    return float(p50), float(p99)


def test_formulas_agree_with_a_simulated_queue() -> None:
    # Tolerances are at least three standard deviations of a run of this length (120 runs).
    responses = simulated_responses(servers=8, utilisation=0.8, requests=800_000, seed=7)
    for q in (0.5, 0.99):
        expected = float(np.quantile(responses, q))
        assert float(erlang.response_quantile(8, 0.8, q)) == pytest.approx(expected, rel=0.02)
    assert float(erlang.mean_response(8, 0.8)) == pytest.approx(responses.mean(), rel=0.02)
    for t in (0.5, 1.0, 3.0):
        expected = float((responses > t).mean())
        assert float(erlang.response_tail(8, 0.8, t)) == pytest.approx(expected, abs=0.006)


@pytest.mark.parametrize(
    ("servers", "offered_load", "expected"),
    [
        (1, 0.3, 0.3),  # one server: it is busy with probability rho
        (2, 1.0, 1 / 3),  # two servers: 2 rho^2 / (1 + rho)
        (3, 2.0, 4 / 9),
        (5, 4.0, 0.554113),  # by the textbook sum, in exact fractions
        (10, 8.0, 0.409180),
        (3000, 0.0, 0.0),
    ],
)
def test_erlang_c_gives_the_textbook_values(
    servers: int, offered_load: float, expected: float
) -> None:
    waits = float(erlang.waiting_probability(servers, offered_load / servers))
    assert waits == pytest.approx(expected, abs=1e-6)


def test_tail_and_quantile_are_inverse_also_where_wait_and_service_decay_alike() -> None:
    servers, utilisation = np.array([2, 4, 8, 3000]), np.array([0.5, 0.75, 0.875, 0.98])
    for q in (0.5, 0.99):
        t = erlang.response_quantile(servers, utilisation, q)
        assert np.allclose(erlang.response_tail(servers, utilisation, t), 1.0 - q, rtol=1e-9)


def test_tables_stay_close_to_the_exact_quantiles() -> None:
    exact = [erlang.response_quantile(np.array(SERVERS)[:, None], LOADS, q) for q in (0.5, 0.99)]
    read = np.array([[table_quantiles(c, rho) for rho in LOADS] for c in SERVERS])
    for index, expected in enumerate(exact):
        assert np.abs(read[..., index] / expected - 1.0).max() <= TABLE_ERROR_MAX


@given(
    servers=st.floats(1.0, 5000.0),
    loads=st.tuples(st.floats(0.0, 1.2), st.floats(0.0, 1.2)),
)
def test_more_load_is_never_faster(servers: float, loads: tuple[float, float]) -> None:
    calm, busy = (np.array(table_quantiles(servers, load)) for load in sorted(loads))
    assert (busy >= calm * (1.0 - 1e-6)).all()


@given(
    servers=st.tuples(st.floats(1.0, 5000.0), st.floats(1.0, 5000.0)),
    load=st.floats(0.0, 1.2),
)
def test_more_servers_at_the_same_utilisation_are_never_slower(
    servers: tuple[float, float], load: float
) -> None:
    few, many = (np.array(table_quantiles(count, load)) for count in sorted(servers))
    assert (many <= few * (1.0 + 1e-6)).all()


def test_values_outside_the_tables_are_read_at_their_edge() -> None:
    worst = table_quantiles(1.0, erlang.RHO_MAX)
    assert worst == pytest.approx((np.log(2.0) / 0.02, np.log(100.0) / 0.02), rel=0.01)
    for servers, load in ((0.0, 1.0), (-1.0, np.inf), (np.nan, np.nan)):
        assert table_quantiles(servers, load) == worst
    assert table_quantiles(np.inf, -1.0) == table_quantiles(erlang.SERVERS_MAX, 0.0)


def test_tables_are_the_same_each_time_they_are_built() -> None:
    again = erlang.build_tables.__wrapped__()
    for first, second in zip(erlang.build_tables(), again, strict=True):
        assert np.array_equal(first, second)


@given(utilisation=st.floats(0.0, 0.97), share=st.floats(1e-9, 0.499))
def test_tail_is_exact_for_one_server(utilisation: float, share: float) -> None:
    slack = 1.0 - utilisation
    slower = tail(np.log(2.0) / slack, np.log(100.0) / slack, -np.log(share) / slack)
    assert float(slower) == pytest.approx(share, rel=1e-4)


QUANTILE = st.floats(0.0, 1e6, width=32) | st.just(np.inf)
LIMIT = st.floats(-1.0, 2.0**126, width=32) | st.just(np.inf)


@given(first=QUANTILE, second=QUANTILE, limits=st.tuples(LIMIT, LIMIT))
def test_tail_is_a_share_and_falls_with_the_limit(
    first: float, second: float, limits: tuple[float, float]
) -> None:
    p50, p99 = sorted((first, second))
    near, far = (float(tail(p50, p99, x)) for x in sorted(limits))
    assert 0.0 <= far <= 1.0
    assert 0.0 <= near <= 1.0
    assert far <= near + 1e-6


def test_tail_passes_through_both_quantiles() -> None:
    assert tail(2.0, 8.0, 0.0) == 1.0
    assert tail(2.0, 8.0, 1.0) == 0.75
    assert tail(2.0, 8.0, 2.0) == 0.5
    assert float(tail(2.0, 8.0, 8.0)) == pytest.approx(0.01, rel=1e-5)


def test_tail_of_degenerate_quantiles_is_a_step() -> None:
    assert tail(2.0, 2.0, 2.0) == 0.5
    assert tail(2.0, 2.0, 2.1) == 0.0
    assert tail(np.inf, np.inf, 5.0) == 1.0
    assert tail(2.0, 8.0, np.inf) == 0.0
    assert tail(np.inf, np.inf, np.inf) == 0.0

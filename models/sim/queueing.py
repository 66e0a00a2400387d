"""Response times of a queue with c servers (M/M/c, first come first served).

Times are in units of the mean service time. The exact formulas fill tables once. A tick only
interpolates in them: it needs 1,550 x 64 values and cannot afford an `exp` for each. Kernels use
float32 constants only, because a float64 literal would promote their arithmetic.
"""

from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.cluster.arrays import F32, F64, I64
from models.jit import kernel

U32 = NDArray[np.uint32]

RHO_MAX: Final = 0.98
"""Utilisation at which the tables end: above it a backlog grows, so there is no steady state."""
SERVERS_MAX: Final = 4096
"""Larger queues are read as this one. They are slightly faster in fact, so the error is safe."""

# The grids are the float32 numbers with three mantissa bits: eight even steps per octave.
# The bits of a value then *are* its grid cell, and no logarithm is needed to find it.
_STEPS: Final = 8
_SLACK_OCTAVES: Final = 6
_COLUMNS: Final = _SLACK_OCTAVES * _STEPS + 2
_STRIDE: Final = np.uint64(_COLUMNS)
# Cell of the tables' first corner: 1 server (exponent 127) and a slack of 2**-6.
_ORIGIN: Final = np.uint64(127 * _STEPS * _COLUMNS + (127 - _SLACK_OCTAVES) * _STEPS)
_TERMS: Final = np.uint64(8)
_OTHER: Final = np.uint64(4)
_RIGHT, _BELOW, _ACROSS = np.uint64(1), np.uint64(2), np.uint64(3)
_CELL_SHIFT: Final = np.uint32(20)
_CELL_MASK: Final = np.uint32((1 << 20) - 1)
_CELL_WIDTH: Final = np.float32(2.0**-20)
_SLACK_MIN: Final = np.float32(1.0 - RHO_MAX)
_SERVERS_TOP: Final = np.float32(SERVERS_MAX)
_ONE: Final = np.float32(1.0)

Real = float | np.float32


def waiting_probability(servers: ArrayLike, utilisation: ArrayLike) -> F64:
    """Erlang C: the share of requests that find all servers busy. Broadcasts."""
    count, rho = np.broadcast_arrays(np.asarray(servers, np.int64), np.asarray(utilisation, float))
    blocked = _blocking_probability(count.ravel(), (count * rho).ravel()).reshape(count.shape)
    return np.asarray(blocked / (1.0 - rho * (1.0 - blocked)))


def _blocking_probability(servers: I64, load: F64) -> F64:
    """Erlang B by its recursion in the number of servers, which never overflows."""
    # By size, so that step k only touches the queues that have a k-th server.
    order = np.argsort(-servers, kind="stable")
    count, offered = servers[order], load[order]
    active = np.searchsorted(-count, -np.arange(1, count.max() + 1), side="right")
    blocked = np.ones(count.size)
    for k, n in enumerate(active, start=1):
        carried = offered[:n] * blocked[:n]
        blocked[:n] = carried / (k + carried)
    result = np.empty_like(blocked)
    result[order] = blocked
    return result


def mean_response(servers: ArrayLike, utilisation: ArrayLike) -> F64:
    """Mean of waiting plus service."""
    waits = waiting_probability(servers, utilisation)
    return np.asarray(1.0 + waits / _drain_rate(servers, utilisation))


def response_tail(servers: ArrayLike, utilisation: ArrayLike, t: ArrayLike) -> F64:
    """P(T > t): the share of requests that take longer than `t`."""
    waits = waiting_probability(servers, utilisation)
    return _tail_given_waits(waits, _drain_rate(servers, utilisation), np.asarray(t, float))


def response_quantile(servers: ArrayLike, utilisation: ArrayLike, q: float) -> F64:
    """The `q` quantile of the response time, by bisection.

    Bracketed by service alone and by one server at the same utilisation.
    """
    waits, drain = waiting_probability(servers, utilisation), _drain_rate(servers, utilisation)
    low = np.full(waits.shape, -np.log1p(-q))
    high = low / (1.0 - np.asarray(utilisation, float))
    for _ in range(44):
        middle = 0.5 * (low + high)
        slower = _tail_given_waits(waits, drain, middle) > 1.0 - q
        low, high = np.where(slower, middle, low), np.where(slower, high, middle)
    return np.asarray(0.5 * (low + high))


def _drain_rate(servers: ArrayLike, utilisation: ArrayLike) -> F64:
    """Rate at which the wait of a waiting request decays."""
    return np.asarray(np.asarray(servers, float) * (1.0 - np.asarray(utilisation, float)))


def _tail_given_waits(waits: F64, drain: F64, t: F64) -> F64:
    """Service plus, with probability `waits`, an exponential wait; stable where rates agree."""
    # Where waiting and service decay alike, the closed form would divide by zero.
    gap = np.maximum(np.abs(drain - 1.0), 1e-12)
    late = np.exp(-np.minimum(drain, 1.0) * t) * -np.expm1(-gap * t) / gap
    return np.asarray(np.exp(-t) + waits * late)


class LatencyTables(NamedTuple):
    """Quantiles of the response time over [servers, slack = 1 - utilisation]."""

    cells: F32
    """Flattened from [cells, 2, 4]: the coefficients of a cell for p50 and p99, side by side in
    half a cache line. See `_bilinear`."""


@cache
def build_tables() -> LatencyTables:
    """Exact quantiles on the grid; interpolated where the number of servers is not an integer."""
    servers = _grid(0, SERVERS_MAX.bit_length() - 1)[:, None]
    utilisation = 1.0 - np.minimum(_grid(-_SLACK_OCTAVES, 0), 1.0)
    # Erlang's formulas need whole servers, but steps within an octave are fractions.
    whole = np.floor(servers)
    part = servers - whole

    def corners(q: float) -> F64:
        at_floor = response_quantile(whole, utilisation, q)
        at_ceiling = response_quantile(np.ceil(servers), utilisation, q)
        return _cell_terms(np.asarray(at_floor + part * (at_ceiling - at_floor)))

    both = np.stack([corners(0.5), corners(0.99)], axis=2)
    return LatencyTables(cells=both.astype(np.float32).ravel())


def _cell_terms(grid: F64) -> F64:
    """[rows, columns, 4] the value at the upper left corner and its changes over the cell."""
    below = np.vstack([grid[1:], grid[-1:]])
    right = np.hstack([grid[:, 1:], grid[:, -1:]])
    across = np.hstack([below[:, 1:], below[:, -1:]])
    return np.stack([grid, right - grid, below - grid, across - below - right + grid], axis=2)


def _grid(first_octave: int, last_octave: int) -> F64:
    """Points from 2**first to 2**last and one more, so that the last cell has an upper end too."""
    index = np.arange((last_octave - first_octave) * _STEPS + 2)
    return np.asarray(2.0 ** (first_octave + index // _STEPS) * (1.0 + index % _STEPS / _STEPS))


@kernel
def quantiles(
    tables: LatencyTables, servers: Real, utilisation: Real
) -> tuple[np.float32, np.float32]:
    """(p50, p99) of the response time, within 1 % of the exact formulas.

    Fewer than one server count as one; utilisation is clipped to [0, RHO_MAX]. The constant is
    the first argument of `max`, so that nan becomes the worst case and not an index out of range.
    """
    count = min(_SERVERS_TOP, max(_ONE, np.float32(servers)))
    slack = min(_ONE, max(_SLACK_MIN, _ONE - np.float32(utilisation)))
    row, down = _cell(count)
    column, right = _cell(slack)
    at = row * _STRIDE + column - _ORIGIN
    start = at * _TERMS
    p50 = _bilinear(tables.cells, start, down, right)
    return p50, _bilinear(tables.cells, start + _OTHER, down, right)


@kernel
def locate(servers: F32, utilisation: F32, cell: U32, down: F32, right: F32) -> None:
    """Grid cells of many apps and the positions in them: the first half of `quantiles`.

    Split from `interpolate` because this half vectorises.
    """
    for app in range(cell.size):
        count = min(_SERVERS_TOP, max(_ONE, servers[app]))
        slack = min(_ONE, max(_SLACK_MIN, _ONE - utilisation[app]))
        row, down[app] = _cell(count)
        column, right[app] = _cell(slack)
        cell[app] = np.uint32(row * _STRIDE + column - _ORIGIN)


@kernel
def interpolate(
    tables: LatencyTables, cell: U32, down: F32, right: F32, p50: F32, p99: F32
) -> None:
    """The quantiles at the positions that `locate` found."""
    for app in range(cell.size):
        start = np.uint64(cell[app]) * _TERMS
        p50[app] = _bilinear(tables.cells, start, down[app], right[app])
        p99[app] = _bilinear(tables.cells, start + _OTHER, down[app], right[app])


@kernel
def _cell(value: Real) -> tuple[np.uint64, np.float32]:
    """Grid cell of a positive value and the position in it, 0 to 1."""
    bits = np.float32(value).view(np.uint32)
    return np.uint64(bits >> _CELL_SHIFT), np.float32(np.int32(bits & _CELL_MASK)) * _CELL_WIDTH


@kernel
def _bilinear(cells: F32, at: np.uint64, down: np.float32, right: np.float32) -> np.float32:
    """Interpolate between a cell's corners. Unsigned indices avoid numba's wrap-around check."""
    upper = cells[at] + right * cells[at + _RIGHT]
    return np.float32(upper + down * (cells[at + _BELOW] + right * cells[at + _ACROSS]))

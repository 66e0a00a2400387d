"""Physical features to the inputs of a policy: finite, bounded, of the order of one."""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F32, I8
from models.features.table import APP, CLUSTER, GROUP, POOL, Feature, domain_columns
from models.jit import kernel


class Features(NamedTuple):
    """E environments, A apps, G tier groups, D domains, P pools; columns as in the table.

    Stored feature by feature, so that `app[..., APP.at("rps")]` is a plain row in memory.
    """

    app: F32
    """[E, A, APP]."""
    group: F32
    """[E, G, GROUP] groups domain by domain."""
    domain: F32
    """[E, D, DOMAIN + D] with the call row at the end."""
    pool: F32
    """[E, P, POOL]."""
    cluster: F32
    """[E, CLUSTER]."""


class _Rule(NamedTuple):
    root: I8
    scale: F32
    low: F32
    high: F32


def empty_features(environments: int, apps: int, groups: int, domains: int, pools: int) -> Features:
    """Zeros in the layout that the encoder fills."""
    e = environments
    return Features(
        app=_rows(e, APP.width, apps),
        group=_rows(e, GROUP.width, groups),
        domain=_rows(e, len(domain_columns(domains)), domains),
        pool=_rows(e, POOL.width, pools),
        cluster=np.zeros((e, CLUSTER.width), np.float32),
    )


def by_feature(values: F32) -> F32:
    """[E, features, things] of [E, things, features]: the same memory as it is stored."""
    return values.transpose(0, 2, 1)


def normalise(features: Features, out: Features | None = None) -> Features:
    """The features as the table normalises them, written to `out` if given."""
    target = out or Features(*(np.empty_like(values) for values in features))
    domains = features.domain.shape[1]
    levels = (APP.features, GROUP.features, domain_columns(domains), POOL.features)
    for columns, values, result in zip(levels, features[:4], target[:4], strict=True):
        _normalise(by_feature(values), *_rule(columns), by_feature(result))
    # The cluster is a table of one row.
    _normalise(features.cluster[..., None], *_rule(CLUSTER.features), target.cluster[..., None])
    return target


def _rows(environments: int, width: int, things: int) -> F32:
    # Allocated feature by feature and shown app by app: kernels read contiguous rows.
    return by_feature(np.zeros((environments, width, things), np.float32))


def _rule(columns: tuple[Feature, ...]) -> _Rule:
    return _Rule(
        root=np.array([feature.how == "root" for feature in columns], np.int8),
        # The inverse: the kernels multiply, which is several times faster.
        scale=np.array([1.0 / feature.scale for feature in columns], np.float32),
        low=np.array([feature.low for feature in columns], np.float32),
        high=np.array([feature.high for feature in columns], np.float32),
    )


# float32, because a plain 0.0 in a kernel would turn the arithmetic around it into float64.
_ZERO: Final = np.float32(0.0)


@kernel
def _normalise(values: F32, root: I8, scale: F32, low: F32, high: F32, out: F32) -> None:
    for e in range(values.shape[0]):
        for index in range(root.size):
            row, target = values[e, index], out[e, index]
            if root[index] == 1:
                _root(row, scale[index], high[index], target)
            else:
                _linear(row, scale[index], low[index], high[index], target)


@kernel
def _root(row: F32, scale: np.float32, high: np.float32, out: F32) -> None:
    for index in range(row.size):
        out[index] = min(np.sqrt(max(row[index] * scale, _ZERO)), high)


@kernel
def _linear(row: F32, scale: np.float32, low: np.float32, high: np.float32, out: F32) -> None:
    for index in range(row.size):
        out[index] = min(max(row[index] * scale, low), high)

"""The spend cap: what the nodes of all pools together may cost per hour."""

import numpy as np

from models.cluster.arrays import F64, I32


def within_cap(requested: I32, price: F64, left: F64) -> I32:
    """Cut node requests [E, P, urgencies] to the money [E] that is left per hour.

    The most urgent nodes of all pools come first. Where not all nodes of one urgency can be paid
    for, every pool gets the same share of them, and less urgent ones get nothing: what is left of
    the money pays for whole nodes, pool by pool.
    """
    granted, left = np.zeros_like(requested), left.copy()
    for urgency in range(requested.shape[2]):
        asked = requested[:, :, urgency]
        cost = asked @ price
        # A pool without a price costs nothing, and a cap that is exceeded pays for nothing else.
        share = np.clip(left / np.where(cost > 0.0, cost, 1.0), 0.0, 1.0)
        share = np.where(cost > 0.0, share, 1.0)
        paid = np.where(price > 0.0, share[:, None], 1.0)
        whole = np.where(paid < 1.0, np.floor(asked * paid), asked)
        left -= whole @ price
        for pool in np.flatnonzero(price > 0.0):
            # Rounded down, shares of a few nodes are none at all.
            more = np.minimum(asked[:, pool] - whole[:, pool], np.floor(left / price[pool]))
            more = np.maximum(more, 0.0)
            whole[:, pool] += more
            left -= more * price[pool]
        granted[:, :, urgency] = whole
        # Money that is too little for a node is kept for it.
        left[(whole < asked).any(axis=1)] = 0.0
    return granted

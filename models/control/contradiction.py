"""Whether what was observed of an app contradicts what the cluster says it has."""

from typing import Final

import numpy as np

from models.cluster.arrays import I32, Mask

# Chosen by hand: how far honest samples and the target differ was not measured.
CHURN_SHARE: Final = 0.2
"""How far a sample may differ from what the target has, as a share: the two are read at different
times, and an app changes in between."""
CHURN_LEAST: Final = 2
"""The same in absolute numbers, for small ones, where one pod is already a large share."""
UNREAD: Final = -1
"""Number of an app that was not read."""


def contradicted(observed: I32, now: I32, earlier: I32) -> Mask:
    """Which apps [A] were observed with numbers that they have neither now nor had before.

    All are [3, A]: replicas, millicores and MiB per pod. `earlier` is from the read before this
    one: an observation may be older than our last change, but hardly than the last two. Without an
    earlier read only `now` counts; an app that the cluster does not have contradicts nothing.
    """
    differs = _is_far(observed, now) & ((earlier == UNREAD) | _is_far(observed, earlier))
    found: Mask = (differs & (now != UNREAD)).any(axis=0)
    return found


def _is_far(observed: I32, read: I32) -> Mask:
    far: Mask = np.abs(observed - read) > np.maximum(CHURN_LEAST, CHURN_SHARE * read)
    return far

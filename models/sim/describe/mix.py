"""What a shift between request types does to the work per request.

An app's work per request is calibrated as the mean over its declared mix, so only the change
against that mix matters: as declared, a request costs what it always did.
"""

import numpy as np

from models.cluster.arrays import F32, F64
from models.cluster.inventory import REQUEST_TYPES, RequestType
from models.sim.describe.physics import RequestWork


def mean_work(mix: F32, work: RequestWork) -> F64:
    """[A] work of a mean request of each app, over that of an API request."""
    return np.asarray(mix.astype(np.float64) @ _by_type(work))


def work_change(mix: F32, work: RequestWork, source: RequestType, target: RequestType) -> F64:
    """[A] relative change of the work per request when all of `source` becomes `target`."""
    index, each = REQUEST_TYPES.index, _by_type(work)
    moved = mix[:, index(source)] * (each[index(target)] - each[index(source)])
    return np.asarray(moved / mean_work(mix, work))


def _by_type(work: RequestWork) -> F64:
    return np.array([getattr(work, name) for name in REQUEST_TYPES])

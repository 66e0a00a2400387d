"""The actuator's rules for replicas: what may be changed, whoever wished it.

Increases need room in the budget; decreases need data, a rested app and room in the blast radius.
What passed once passes again unchanged, as long as the memory of the rules is the same.
"""

import numpy as np

from models.cluster.arrays import F32, F64, I32
from models.cluster.plan import Reason
from models.control.projection import MILLICORES, project
from models.control.restraint import NOBODY, Workspace, left_of_blast
from models.jit import kernel

_NO_METRICS = int(Reason.HOLD_NO_METRICS)
_RESTING = int(Reason.HOLD_COOL_DOWN)
_BLAST = int(Reason.HOLD_BLAST_RADIUS)
_BUDGET = int(Reason.HOLD_BUDGET)
_OUT, _YIELD = int(Reason.SCALE_OUT), int(Reason.YIELD)


@kernel
def enforce(
    wanted: I32,
    reason: I32,
    current: I32,
    pending: I32,
    domain: I32,
    active: I32,
    missing: F32,
    load: F32,
    tick: int,
    cool_down: int,
    least: I32,
    most: I32,
    rested: I32,
    decreased: F64,
    work: Workspace,
) -> None:
    """Cut the wishes of one environment to what is allowed, and remember what was changed.

    Of the workspace, sizes, limits and turns are given.
    """
    _keep_bounds(wanted, reason, current, active, missing, rested, tick, least, most)
    _keep_blast_radius(wanted, reason, current, pending, domain, tick, decreased, work)
    _keep_budget(wanted, reason, current, load, domain, work)
    for app in range(wanted.size):
        if wanted[app] != current[app]:
            rested[app] = tick + cool_down


@kernel
def _keep_bounds(
    wanted: I32,
    reason: I32,
    current: I32,
    active: I32,
    missing: F32,
    rested: I32,
    tick: int,
    least: I32,
    most: I32,
) -> None:
    """Declared minima and maxima; and nothing is taken from an app that is unseen or unrested.

    Only what others cannot do without is given before an app has rested. An app that is not
    declared has no bounds and is left alone; so is one without replicas: its owner scaled it to
    zero, or nobody knows how many it has, and a minimum would then be a cut.
    """
    for app in range(wanted.size):
        if active[app] != 1 or current[app] == 0:
            wanted[app] = current[app]
            continue
        held = wanted[app] >= current[app]
        wanted[app] = min(max(wanted[app], least[app]), most[app])
        if wanted[app] >= current[app]:
            continue
        resting = rested[app] > tick and reason[app] != _YIELD
        if missing[app] > 0.0 or resting:
            wanted[app] = current[app]
            # What was held before, though it is above its maximum, has its reason already.
            if not held:
                reason[app] = _NO_METRICS if missing[app] > 0.0 else _RESTING


@kernel
def _keep_blast_radius(
    wanted: I32,
    reason: I32,
    current: I32,
    pending: I32,
    domain: I32,
    tick: int,
    decreased: F64,
    work: Workspace,
) -> None:
    """Take away no more per domain and window than its share; who comes first changes by tick."""
    slot, room = decreased[tick % decreased.shape[0]], work.blast
    for place in range(slot.size):
        slot[place] = 0.0
    left_of_blast(current, work.size, domain, decreased, room)
    for step in range(wanted.size):
        app = work.order[step]
        if app == NOBODY:
            break
        if wanted[app] >= current[app]:
            continue
        place, size = domain[app], work.size[MILLICORES, app]
        # A pod that never found a node can be withdrawn: nothing runs there to be missed.
        running = current[app] - pending[app]
        lot = np.float64(max(0, running - wanted[app])) * np.float64(size)
        if lot > max(0.0, room[place]):
            fewer = max(0, int(room[place] / max(1, size)))
            wanted[app] = min(running, current[app]) - fewer
            reason[app] = _BLAST if wanted[app] == current[app] else reason[app]
            lot = np.float64(fewer) * np.float64(size)
        room[place] -= lot
        slot[place] += lot


@kernel
def _keep_budget(
    wanted: I32, reason: I32, current: I32, load: F32, domain: I32, work: Workspace
) -> None:
    size, limit = work.size, work.limit
    project(wanted, current, load, size, domain, limit, work.held, work.low, work.high)
    for app in range(wanted.size):
        cut = work.high[domain[app]] > 0.0 and reason[app] == _OUT
        if cut and wanted[app] == current[app]:
            reason[app] = _BUDGET

"""Models against each other on one series: who would have served, and how good everybody was.

Who serves is decided by what was known when the test began: the learned model, if in the days
before no simple rule was better at any horizon. Nothing of the test has a say in it. A running
service is slower to change (`learned/choice.py`): it can change back, a file is judged once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from models.cluster.arrays import F64
from models.cluster.calendar import DAY_MINUTES
from models.forecaster.learned.artefact import NAME
from models.forecaster.port import HORIZONS_MIN, LEAST_HISTORY_MIN, MEDIAN
from models.forecaster.score.headline import FLOORS, Cell, cells
from models.forecaster.score.metrics import Row
from models.forecaster.score.outcome import Outcome, run
from models.forecaster.score.peers.boosted import Boosted
from models.forecaster.score.peers.learned import Learned, acquainted
from models.forecaster.score.peers.port import Peer, Tell
from models.forecaster.score.significance import compared
from models.forecaster.score.spikes import SpikeScore, score_spikes
from models.forecaster.score.windows import Windows, origins, targets
from models.forecaster.series import Series
from models.statistics import Interval

JUDGED_MIN: Final = (6 * 60, 7 * DAY_MINUTES)
"""Minutes before a test by which the serving model is chosen: at least, at most."""
STEPS: Final = 20
"""That a bar advances by for each model, and for the choice."""


Advance = Callable[[int], None]


def ignore(_: int) -> None:
    """For those who do not wait."""


class Served(NamedTuple):
    """A model and why it is the one."""

    model: str
    why: str


class Significance(msgspec.Struct, frozen=True):
    """The learned model's error over that of the best simple rule, with its 95 % interval."""

    series: str
    horizon_min: int
    floor: str
    ratio: Interval


class Contest(NamedTuple):
    """A series after all models were asked."""

    outcome: Outcome
    served: Served
    rows: tuple[Row, ...]
    cells: tuple[Cell, ...]
    significance: tuple[Significance, ...]
    spikes: tuple[SpikeScore, ...]
    """Where something was announced."""
    notes: tuple[str, ...]

    @property
    def is_served(self) -> bool:
        """Whether the model that would serve has anything to say."""
        return self.served.model in self.outcome.forecasts


def contest(
    series: Series, windows: Windows, peers: Sequence[Peer], advance: Advance = ignore
) -> Contest:
    """Run all models over the windows and judge them; `advance` is told of `steps_of` them."""
    peers = acquainted(peers, series)
    outcome = run(series, windows, _watched(peers, advance))
    scores, compared_to = outcome.scores(), cells(outcome)
    return Contest(
        outcome=outcome,
        served=_choose(series, windows.test_from, peers, advance),
        rows=scores.rows,
        cells=compared_to.cells,
        significance=tuple(_significance(outcome, compared_to.cells)),
        spikes=_spikes(outcome) if series.calendar else (),
        notes=(*_absences(outcome), *scores.notes, *compared_to.left_out),
    )


def steps_of(peers: Sequence[Peer]) -> int:
    """By how much a contest advances."""
    return STEPS * (len(peers) + 1)


class _Part:
    """A part of a contest in whole steps of a bar."""

    def __init__(self, advance: Advance) -> None:
        self._advance, self._done = advance, 0

    def reach(self, share: float) -> None:
        """So much of it is done."""
        done = int(share * STEPS)
        self._advance(done - self._done)
        self._done = done


def _watched(peers: Sequence[Peer], advance: Advance) -> Iterator[Peer]:
    for peer in peers:
        part = _Part(advance)
        yield _telling(peer, part.reach)
        part.reach(1.0)


def _telling(peer: Peer, tell: Tell) -> Peer:
    return peer._replace(tell=tell) if isinstance(peer, Learned | Boosted) else peer


def _choose(series: Series, until_min: int, peers: Sequence[Peer], advance: Advance) -> Served:
    part = _Part(advance)
    served = choose(series, until_min, (_telling(peer, part.reach) for peer in peers))
    part.reach(1.0)
    return served


def choose(series: Series, until_min: int, peers: Iterable[Peer]) -> Served:
    """The model that serves from `until_min` on, by its errors before."""
    able = [peer for peer in peers if peer.name == NAME or peer.name in FLOORS]
    past, first = series.until(until_min), _judged_from(until_min)
    at = origins(past, first, until_min - min(HORIZONS_MIN))
    came = targets(past, at)
    judged = Windows(first, at, came)
    if until_min - first < JUDGED_MIN[0] or np.isnan(came).all():
        return _default(able, f"fewer than {JUDGED_MIN[0] // 60} hours before to judge by")
    errors = _errors(run(past, judged, able))
    return _chosen(errors, f"the {(until_min - first) / 60:.0f} hours before")


def _judged_from(until_min: int) -> int:
    """The last half of what is known, so that rules that look back have something to see."""
    least, most = JUDGED_MIN
    first = min(max(until_min // 2, until_min - most), until_min - least)
    return max(LEAST_HISTORY_MIN, first)


def _errors(outcome: Outcome) -> dict[str, F64]:
    """[H] mean absolute error at each horizon, by model."""
    target = outcome.windows.target
    errors = {name: np.abs(target - said[:, :, MEDIAN]) for name, said in outcome.forecasts.items()}
    known = ~np.isnan(target).all(axis=0)
    return {name: np.nanmean(each[:, known], axis=0) for name, each in errors.items()}


def _chosen(errors: dict[str, F64], when: str) -> Served:
    """Held against the best rule of each horizon: one mean over all would hide a bad one."""
    floors = {name: error for name, error in errors.items() if name != NAME}
    best = min(floors, key=lambda name: float(floors[name].mean()))
    if NAME not in errors:
        return Served(best, f"the best simple rule of {when}; no learned model is here")
    least = np.min(list(floors.values()), axis=0)
    if (least < errors[NAME]).any():
        worst = int(_ratio(errors[NAME], least).argmax())
        return Served(best, _beaten(errors, worst, when))
    against = float(_ratio(errors[NAME].mean(), floors[best].mean()))
    return Served(NAME, f"in {when} its error was {against:.2f} times that of {best}")


def _beaten(errors: dict[str, F64], place: int, when: str) -> str:
    """By whom and how far, at the horizon where it was worst; horizons below the step are out."""
    horizon = HORIZONS_MIN[len(HORIZONS_MIN) - errors[NAME].size + place]
    rule = min((name for name in errors if name != NAME), key=lambda name: errors[name][place])
    own, other = float(errors[NAME][place]), float(errors[rule][place])
    if other == 0.0:
        return f"in {when} {rule} was never wrong at {horizon} min, {NAME} was"
    over = f"{own / other:.3f} times that of {rule} at {horizon} min"
    return f"in {when} the error of {NAME} was {over}"


def _ratio(error: F64 | np.float64, other: F64 | np.float64) -> F64:
    """1 where both are nothing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.equal(error, other), 1.0, np.divide(error, other))


def _default(able: list[Peer], why: str) -> Served:
    """The learned model, or the smoothest rule that needs no season."""
    return Served(NAME if any(peer.name == NAME for peer in able) else "mean5", why)


def _significance(outcome: Outcome, found: Iterable[Cell]) -> Iterable[Significance]:
    for cell in found:
        if cell.model == NAME:
            ratio = compared(outcome, NAME, cell.floor, cell.horizon_min)
            yield Significance(cell.series, cell.horizon_min, cell.floor, ratio)


def _spikes(outcome: Outcome) -> tuple[SpikeScore, ...]:
    """Of models that were asked at every origin; the others would have missed what they skip."""
    return tuple(
        score
        for model, said in outcome.forecasts.items()
        if not np.isnan(said).all(axis=(1, 2)).any()
        for score in score_spikes(outcome.series, model, outcome.windows, said)
    )


def _absences(outcome: Outcome) -> list[str]:
    name = outcome.series.name
    return [f"{name}: {model}: absent, {reason}" for model, reason in outcome.absent.items()]

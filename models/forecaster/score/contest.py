"""Compares models on one series, and decides which one would have served.

The decision uses only the days before the test: the learned model serves unless a simple rule was
better at any horizon. A running service is slower to change its model (`learned/choice.py`),
because it can also change back; for a file the choice is made once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from models.cluster.arrays import F64
from models.cluster.calendar import DAY_MINUTES
from models.forecaster.learned.artefact import NAME
from models.forecaster.port import HORIZONS_MIN, LEAST_HISTORY_MIN, MEDIAN
from models.forecaster.score.comparison import FLOORS, Cell, cells, compared
from models.forecaster.score.evaluation import Evaluation, Peer, Progress, run
from models.forecaster.score.metrics import Row
from models.forecaster.score.peers.boosted import Boosted
from models.forecaster.score.peers.learned import Learned, with_shared_cache
from models.forecaster.score.spikes import SpikeScore, score_spikes
from models.forecaster.score.windows import Windows, origins, targets
from models.forecaster.series import Series
from models.statistics import Interval

JUDGED_MIN: Final = (6 * 60, 7 * DAY_MINUTES)
"""Smallest and largest number of minutes before a test by which the serving model is chosen."""
STEPS: Final = 20
"""Steps of a progress bar for each model, and for the choice."""


Advance = Callable[[int], None]


def ignore(_: int) -> None:
    """Ignore progress."""


class Served(NamedTuple):
    """The serving model, and why it was chosen."""

    model: str
    why: str


class Significance(msgspec.Struct, frozen=True):
    """The learned model's error over that of the best simple rule, with its 95 % interval."""

    series: str
    horizon_min: int
    floor: str
    ratio: Interval


class Contest(NamedTuple):
    """A series after all models ran."""

    evaluation: Evaluation
    served: Served
    rows: tuple[Row, ...]
    cells: tuple[Cell, ...]
    significance: tuple[Significance, ...]
    spikes: tuple[SpikeScore, ...]
    """Empty if nothing was announced."""
    notes: tuple[str, ...]

    @property
    def is_served(self) -> bool:
        """Whether the model that would serve has a forecast."""
        return self.served.model in self.evaluation.forecasts


def contest(
    series: Series, windows: Windows, peers: Sequence[Peer], advance: Advance = ignore
) -> Contest:
    """Run and score all models; `advance` receives `steps_of` steps in total."""
    # The test and the choice below need forecasts of some of the same minutes.
    peers = with_shared_cache(peers, series)
    evaluation = run(series, windows, _watched(peers, advance))
    scores, compared_to = evaluation.scores(), cells(evaluation)
    return Contest(
        evaluation=evaluation,
        served=_choose(series, windows.test_from, peers, advance),
        rows=scores.rows,
        cells=compared_to.cells,
        significance=tuple(_significance(evaluation, compared_to.cells)),
        spikes=_spikes(evaluation) if series.calendar else (),
        notes=(*_absences(evaluation), *scores.notes, *compared_to.left_out),
    )


def steps_of(peers: Sequence[Peer]) -> int:
    """Number of progress steps of a contest."""
    return STEPS * (len(peers) + 1)


class _Part:
    """Progress of a part of a contest, in whole steps."""

    def __init__(self, advance: Advance) -> None:
        self._advance, self._done = advance, 0

    def reach(self, share: float) -> None:
        """Advance to a share of the part."""
        done = int(share * STEPS)
        self._advance(done - self._done)
        self._done = done


def _watched(peers: Sequence[Peer], advance: Advance) -> Iterator[Peer]:
    for peer in peers:
        part = _Part(advance)
        yield _with_progress(peer, part.reach)
        part.reach(1.0)


def _with_progress(peer: Peer, progress: Progress) -> Peer:
    return peer._replace(progress=progress) if isinstance(peer, Learned | Boosted) else peer


def _choose(series: Series, until_min: int, peers: Sequence[Peer], advance: Advance) -> Served:
    part = _Part(advance)
    served = choose(series, until_min, (_with_progress(peer, part.reach) for peer in peers))
    part.reach(1.0)
    return served


def choose(series: Series, until_min: int, peers: Iterable[Peer]) -> Served:
    """The model that serves from `until_min` on, by the errors before."""
    # The other peers are only compared with: the learned model or a simple rule serves.
    servable = [peer for peer in peers if peer.name == NAME or peer.name in FLOORS]
    past, first = series.until(until_min), _judged_from(until_min)
    # The shortest horizon must have an outcome before the test; longer ones may lack theirs.
    at = origins(past, first, until_min - min(HORIZONS_MIN))
    actual = targets(past, at)
    judged = Windows(first, at, actual)
    if until_min - first < JUDGED_MIN[0] or np.isnan(actual).all():
        return _default(servable, f"fewer than {JUDGED_MIN[0] // 60} hours before to judge by")
    errors = _errors(run(past, judged, servable))
    if errors.keys() <= {NAME}:
        # Rules that look back find nothing where all minutes before the judged ones are missing.
        return _default(servable, "no simple rule could be judged: the minutes before are missing")
    return _chosen(errors, f"the {(until_min - first) / 60:.0f} hours before")


def _judged_from(until_min: int) -> int:
    """The last half of the history, so that rules that look back have data."""
    least, most = JUDGED_MIN
    first = min(max(until_min // 2, until_min - most), until_min - least)
    return max(LEAST_HISTORY_MIN, first)


def _errors(evaluation: Evaluation) -> dict[str, F64]:
    """[H] mean absolute error at each horizon, by model."""
    target = evaluation.windows.target
    errors = {
        name: np.abs(target - each[:, :, MEDIAN]) for name, each in evaluation.forecasts.items()
    }
    # Horizons below the series' step have no target at all.
    scored = ~np.isnan(target).all(axis=0)
    return {name: np.nanmean(each[:, scored], axis=0) for name, each in errors.items()}


def _chosen(errors: dict[str, F64], when: str) -> Served:
    """Compare with the best rule per horizon, because a mean over horizons would hide a bad one."""
    floors = {name: error for name, error in errors.items() if name != NAME}
    best = min(floors, key=lambda name: float(floors[name].mean()))
    if NAME not in errors:
        return Served(best, f"the best simple rule of {when}; no learned model is available")
    least = np.min(list(floors.values()), axis=0)
    # Strictly smaller: a learned model that is as good as the rules serves.
    if (least < errors[NAME]).any():
        worst = int(_ratio(errors[NAME], least).argmax())
        return Served(best, _beaten(errors, worst, when))
    against = float(_ratio(errors[NAME].mean(), floors[best].mean()))
    return Served(NAME, f"in {when} its error was {against:.2f} times that of {best}")


def _beaten(errors: dict[str, F64], index: int, when: str) -> str:
    """The better rule and by how much, at the worst of the scored horizons."""
    # Horizons shorter than the step are not scored, so the errors start at a later one.
    horizon = HORIZONS_MIN[len(HORIZONS_MIN) - errors[NAME].size + index]
    rule = min((name for name in errors if name != NAME), key=lambda name: errors[name][index])
    own, other = float(errors[NAME][index]), float(errors[rule][index])
    if other == 0.0:
        return f"in {when} {rule} was never wrong at {horizon} min, {NAME} was"
    over = f"{own / other:.3f} times that of {rule} at {horizon} min"
    return f"in {when} the error of {NAME} was {over}"


def _ratio(error: F64 | np.float64, other: F64 | np.float64) -> F64:
    """1 where both are zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.equal(error, other), 1.0, np.divide(error, other))


def _default(servable: list[Peer], why: str) -> Served:
    """The learned model, or a smooth rule that needs no season."""
    return Served(NAME if any(peer.name == NAME for peer in servable) else "mean5", why)


def _significance(evaluation: Evaluation, found: Iterable[Cell]) -> Iterable[Significance]:
    for cell in found:
        if cell.model == NAME:
            ratio = compared(evaluation, NAME, cell.floor, cell.horizon_min)
            yield Significance(cell.series, cell.horizon_min, cell.floor, ratio)


def _spikes(evaluation: Evaluation) -> tuple[SpikeScore, ...]:
    """Only for models that ran at every origin; slow ones would miss the spikes that they skip."""
    return tuple(
        score
        for model, forecast in evaluation.forecasts.items()
        if not np.isnan(forecast).all(axis=(1, 2)).any()
        for score in score_spikes(evaluation.series, model, evaluation.windows, forecast)
    )


def _absences(evaluation: Evaluation) -> list[str]:
    name = evaluation.series.name
    return [f"{name}: {model}: absent, {reason}" for model, reason in evaluation.absent.items()]

"""The search for better parameters: Optuna's TPE, one point after the other, kept in a file.

Every point follows from the seed, its number and the values before it, so a search that was stopped
continues as if it had not been. The number of processes that evaluate a point does not matter.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from models.inputs.errors import InputError

if TYPE_CHECKING:
    import optuna

Point = dict[str, float]
Ranges = Mapping[str, tuple[float, float]]

_RANDOM_PER_DIMENSION: Final = 2
"""Random points before the model of the search has something to learn from."""
_WIDE: Final = 10.0
"""Ranges wider than this factor are searched on a logarithmic scale."""
_DIGITS: Final = 4
"""Significant digits of tuned values."""
_POINT, _BY_SCENARIO = "point", "by_scenario"


class Tried(NamedTuple):
    """A point and its value; less is better."""

    point: Point
    value: float
    by_scenario: dict[str, float]


class Search:
    """A search of one family; `name` identifies it in the file and everything it depends on."""

    def __init__(
        self, name: str, starts: Sequence[Point], ranges: Ranges, seed: int, file: Path | None
    ) -> None:
        self._optuna = _import_optuna()
        self._starts, self._ranges, self._seed = starts, ranges, seed
        self._study = self._optuna.create_study(
            study_name=name, storage=_storage(self._optuna, file), load_if_exists=True
        )
        # What was being evaluated when the last run was stopped is evaluated again.
        for trial in self._trials(self._optuna.trial.TrialState.RUNNING):
            self._study.tell(trial.number, state=self._optuna.trial.TrialState.FAIL)

    @property
    def label(self) -> str:
        """Name and version of the search."""
        return f"Optuna {self._optuna.__version__}, TPE"

    @property
    def tried(self) -> list[Tried]:
        """All points with their values, in order."""
        return [
            Tried(trial.user_attrs[_POINT], trial.value or 0.0, trial.user_attrs[_BY_SCENARIO])
            for trial in self._trials(self._optuna.trial.TrialState.COMPLETE)
        ]

    def ask(self) -> tuple["optuna.Trial", Point]:
        """The next point: the starts first, so that a result is never worse than any of them."""
        done = len(self.tried)
        # A new sampler for each point: the state of its generator would not survive a restart.
        self._study.sampler = self._optuna.samplers.TPESampler(
            seed=1000 * self._seed + done,
            n_startup_trials=_RANDOM_PER_DIMENSION * len(self._ranges),
        )
        if done < len(self._starts):
            self._study.enqueue_trial(dict(self._starts[done]))
        trial = self._study.ask()
        point = {
            name: float(f"{trial.suggest_float(name, low, high, log=_wide(low, high)):.{_DIGITS}g}")
            for name, (low, high) in self._ranges.items()
        }
        return trial, point

    def tell(self, trial: "optuna.Trial", tried: Tried) -> None:
        """Store the value of a point."""
        trial.set_user_attr(_POINT, tried.point)
        trial.set_user_attr(_BY_SCENARIO, tried.by_scenario)
        self._study.tell(trial, tried.value)

    def _trials(self, state: Any) -> list[Any]:
        found: list[Any] = self._study.get_trials(deepcopy=False, states=(state,))
        return found


def _import_optuna() -> Any:
    try:
        # Only this search needs it; a serving installation doesn't have it.
        import optuna  # noqa: PLC0415
    except ImportError as error:
        raise InputError(f"calibrate: {error}; install the extra `tune`") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _storage(optuna: Any, file: Path | None) -> Any:
    if file is None:
        return None
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(file)))
    except OSError as error:
        raise InputError(f"{file}: cannot be written ({error.strerror})") from None


def best(tried: list[Tried]) -> Tried:
    """The lowest value; of equals the first."""
    return min(tried, key=lambda one: one.value)


def _wide(low: float, high: float) -> bool:
    # On a linear scale only one point in twenty of 0.0005 to 0.02 would be below 0.0015.
    return low > 0 and high / low > _WIDE

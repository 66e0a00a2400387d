"""How far features are from those that a model was trained on: live, and for the gate.

Training writes the distribution of each feature into the artefact. An hour is never distributed
like all of training: even in the world that a policy was trained in, an hour of load at night or of
a campaign is up to 0.97 away from the whole. So an artefact also has the largest such distance of
its own training runs, of about an hour each, and drift is what goes beyond that.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from models.inputs.errors import InputError

FEATURES: Final = "features.json"
"""The file in an artefact."""
MOST_FEATURES: Final = 256
_POINTS: Final = 50
"""Of each distribution: distances are exact to 2 %."""

F64 = NDArray[np.float64]
Values = Mapping[str, NDArray[np.float32]]
"""Values of each feature, in any shape."""


class Distribution(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The distribution of a feature in training."""

    values: list[float]
    """Ascending, no more than `_POINTS`."""
    shares: list[float]
    """Share of training that is at or below each."""
    spread: float
    """Largest Kolmogorov-Smirnov distance of a training run from all of them."""


@dataclass(frozen=True)
class Seen:
    """What a model's features were of late."""

    version: str = ""
    """Whose features: the artefact's version."""
    minutes: int = 0
    """Since it is watched."""
    counts: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    """[features, points + 1] how many values were at or below each point, and not at or below the
    one before; those of older minutes count less."""


@dataclass(frozen=True)
class Watched:
    """What both models that answer saw of late; part of a service's state."""

    incumbent: Seen = field(default_factory=Seen)
    candidate: Seen = field(default_factory=Seen)

    def of(self, version: str) -> Seen:
        """What a version saw, whichever it was then: a candidate becomes the incumbent."""
        both = (self.incumbent, self.candidate)
        return next((one for one in both if one.version == version), Seen(version))


class Drifts(NamedTuple):
    """The drift of each feature, for both models that answer; empty where none is known."""

    incumbent: Mapping[str, float]
    candidate: Mapping[str, float]

    @property
    def worst(self) -> dict[str, float]:
        """The larger one of each feature."""
        names = self.incumbent.keys() | self.candidate.keys()
        return {
            name: max(self.incumbent.get(name, 0.0), self.candidate.get(name, 0.0))
            for name in sorted(names)
        }


NO_DRIFTS: Final = Drifts({}, {})


class Reference:
    """The distributions of an artefact, ready to count values with."""

    def __init__(self, version: str, features: Mapping[str, Distribution]) -> None:
        """`version` is the artefact's."""
        self.version = version
        self.names = tuple(sorted(features))
        self._points = [np.array(features[name].values) for name in self.names]
        self._spread = np.array([features[name].spread for name in self.names])
        # Padded with points that all values are below, where both shares are 1.
        self._shares = np.ones((len(self.names), _POINTS))
        for row, name in enumerate(self.names):
            self._shares[row, : len(features[name].shares)] = features[name].shares

    def watch(self, seen: Seen, values: Values, window: int) -> tuple[Seen, dict[str, float]]:
        """Add the values of a minute, and forget older ones; what has drifted in a window.

        Nothing is known before a whole window of `window` minutes was seen.
        """
        shape = len(self.names), _POINTS + 1
        if seen.version != self.version or seen.counts.shape != shape:
            seen = Seen(self.version, 0, np.zeros(shape, np.float32))
        faded = seen.counts * np.float32(1.0 - 1.0 / window)
        seen = Seen(self.version, seen.minutes + 1, faded + self.counted(values))
        return seen, self.drift(seen.counts) if seen.minutes >= window else {}

    def counted(self, values: Values) -> NDArray[np.float32]:
        """How many values are between the points, as in `Seen.counts`."""
        counts = np.zeros((len(self.names), _POINTS + 1), np.float32)
        for row, (name, points) in enumerate(zip(self.names, self._points, strict=True)):
            found = values[name].ravel()
            # What is no number is beyond all points. Those beyond the last stay beyond: the
            # padding is at the end of the row.
            at = np.searchsorted(points, found)
            at[(at == points.size) | ~np.isfinite(found)] = _POINTS
            counts[row] = np.bincount(at, minlength=_POINTS + 1)
        return counts

    def distances(self, counts: NDArray[np.float32]) -> F64:
        """[features] Kolmogorov-Smirnov distance from training; 1 where there are no values."""
        total = counts.sum(axis=1, dtype=np.float64)
        below = counts.astype(np.float64).cumsum(axis=1)[:, :-1]
        # Beyond the last point of a feature only the padding follows: compare before it.
        shares = below / np.maximum(total, 1e-9)[:, None]
        last = np.array([points.size for points in self._points])
        used = np.arange(_POINTS)[None] < last[:, None]
        apart = np.where(used, np.abs(shares - self._shares), 0.0).max(axis=1)
        return np.where(total > 0, apart, 1.0)

    def drift(self, counts: NDArray[np.float32]) -> dict[str, float]:
        """By how much each feature is farther from training than a run of training ever was."""
        beyond = np.maximum(self.distances(counts) - self._spread, 0.0)
        return dict(zip(self.names, np.round(beyond, 4).tolist(), strict=True))

    def drift_of(self, values: Values) -> dict[str, float]:
        """The drift of recorded values, such as those of an hour."""
        return self.drift(self.counted(values))


def reference_for(
    name: str, version: str, features: Mapping[str, Distribution] | None, expected: Sequence[str]
) -> Reference | None:
    """What to compare the features of a model with; None if training left nothing.

    Raises InputError unless they are those that services encode.
    """
    if features is None:
        return None
    if other := sorted({*expected} ^ features.keys()):
        raise InputError(
            f"{name}: {FEATURES}: expected the features of the contract, {other[0]:.40} "
            "is missing or unknown; train it again"
        )
    return Reference(version, features)


def watch_both(
    watched: Watched,
    incumbent: Reference | None,
    candidate: Reference | None,
    values: Callable[[], Values],
    window: int,
) -> tuple[Watched, Drifts]:
    """Add a minute's values, which both models see; None where there is nothing to compare with."""
    if incumbent is None and candidate is None:
        return watched, NO_DRIFTS
    found = values()
    (seen, drift), (seen_beside, drift_beside) = (
        (Seen(), dict[str, float]())
        if one is None
        else one.watch(watched.of(one.version), found, window)
        for one in (incumbent, candidate)
    )
    return Watched(seen, seen_beside), Drifts(drift, drift_beside)


def problem(drift: Mapping[str, float], most: float) -> str:
    """Why a model is taken back; empty if no feature has drifted too far, or if none is known."""
    name = farthest(drift)
    if not name or drift[name] <= most:
        return ""
    return (
        f"{name} is another than in training: {drift[name]:.2f} farther from it than any run "
        f"of training, over {most:g}"
    )


def farthest(drift: Mapping[str, float]) -> str:
    """The feature that has drifted farthest; empty if there is none."""
    return max(drift, key=lambda one: drift[one], default="")


def summarised(runs: Sequence[Values]) -> dict[str, Distribution]:
    """The distributions of all training runs together, for the artefact."""
    found = {}
    for name in runs[0]:
        every = np.sort(np.concatenate([run[name].ravel() for run in runs]))
        levels = (np.arange(_POINTS - 2) + 0.5) / (_POINTS - 2)
        inner, times = np.unique(
            np.quantile(every, levels, method="inverted_cdf"), return_counts=True
        )
        # Just below the smallest, and below what is frequent: the shares jump there.
        steps = np.nextafter(np.append(inner[times > 1], every[0]), np.float32(-np.inf))
        values = np.unique(np.concatenate((inner, steps, every[-1:]))).astype(np.float64)
        shares = np.searchsorted(every, values, side="right") / every.size
        plain = Distribution(values=values.tolist(), shares=shares.tolist(), spread=0.0)
        reference = Reference("", {name: plain})
        spread = max(float(reference.distances(reference.counted(run))[0]) for run in runs)
        found[name] = msgspec.structs.replace(plain, spread=spread)
    return found


def write_features(features: Mapping[str, Distribution]) -> bytes:
    """The content of the file."""
    return msgspec.json.format(msgspec.json.encode(features, order="deterministic"), indent=0)


def read_features(data: bytes, where: str) -> dict[str, Distribution]:
    """Decode and check the distributions of an artefact."""
    where = f"{where}: {FEATURES}"
    try:
        found = msgspec.json.decode(data, type=dict[str, Distribution])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{where}: {error}") from None
    if not 0 < len(found) <= MOST_FEATURES:
        raise InputError(f"{where}: expected 1 to {MOST_FEATURES} features, got {len(found)}")
    for name, one in found.items():
        if not _sound(one):
            raise InputError(
                f"{where}: {name[:40]}: expected up to {_POINTS} ascending values, with ascending "
                "shares up to 1 for each, and a spread from 0 to 1"
            )
    return found


def _sound(one: Distribution) -> bool:
    values, shares = np.array(one.values), np.array(one.shares)
    return bool(
        0 < values.size <= _POINTS
        and values.shape == shares.shape
        and np.isfinite(values).all()
        and (np.diff(values) > 0).all()
        and (np.diff(shares) >= 0).all()
        and 0.0 <= shares[0] <= shares[-1] <= 1.0
        and 0.0 <= one.spread <= 1.0
    )

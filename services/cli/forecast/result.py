"""A finished comparison of forecasts, and what of it goes into a file."""

from typing import Any, NamedTuple

import msgspec

from models.forecaster.score.comparison import Headline, headlines
from models.forecaster.score.contest import Contest
from models.forecaster.score.spikes import SpikeScore, pooled
from models.forecaster.score.windows import Skipped


class Result(NamedTuple):
    """All series of a file."""

    file: str
    contests: list[Contest]
    skipped: list[Skipped]
    notes: list[str]
    seconds: float
    command: str
    """Repeats it."""

    @property
    def models(self) -> list[str]:
        """Those that said something, in order."""
        return list(dict.fromkeys(row.model for each in self.contests for row in each.rows))

    @property
    def headline(self) -> tuple[Headline, ...]:
        """Geometric means over the series."""
        return headlines(cell for each in self.contests for cell in each.cells)

    @property
    def spikes(self) -> list[SpikeScore]:
        """Of the series about which something was announced; then of all of them as one."""
        scores = [score for each in self.contests for score in each.spikes]
        several = len({score.series for score in scores}) > 1
        return [*scores, *pooled(scores)] if several else scores

    def all_notes(self) -> list[str]:
        """About the file, the models and single series."""
        return [*self.notes, *(note for each in self.contests for note in each.notes)]


def payload(result: Result) -> dict[str, Any]:
    """As JSON has it."""
    contests = result.contests
    return {
        "served": {each.outcome.series.name: each.served.model for each in contests},
        "rows": [row for each in contests for row in each.rows],
        "headline": result.headline,
        "ratios": [cell for each in contests for cell in each.cells],
        "significance": [found for each in contests for found in each.significance],
        "spikes": [_spike(score) for score in result.spikes],
        "why": {each.outcome.series.name: each.served.why for each in contests},
        "skipped": {each.series: each.reason for each in result.skipped},
        "notes": result.all_notes(),
        "command": result.command,
    }


def _spike(score: SpikeScore) -> dict[str, Any]:
    return {
        **msgspec.structs.asdict(score),
        "recall": score.recall,
        "recall_interval": score.recall_interval,
        "unannounced_recall": score.unannounced_recall,
        "false_alarms_per_day": score.false_alarms_per_day,
    }

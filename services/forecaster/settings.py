"""Settings of the forecaster, besides those of the kit."""

from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from models.forecaster.learned import choice, conformal, memory
from services.forecaster.decide import MOST_SECONDS
from services.forecaster.model import MODELS, Learning

SERVICE: Final = "forecaster"


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One forecaster per cluster."""

    cluster: str = ""
    """Path of a cluster description (YAML); the example cluster when empty."""
    model: str = "calendar"
    """calendar, seasonal, persistence, or tft, the trained network."""
    rule_minutes: Annotated[int, Meta(ge=30, le=1440)] = 120
    """How long a rule is used before it is built again from the history around the time of day."""
    model_folder: str = ""
    """Path of the folder of a signed model; the shipped model when empty. For tft."""
    most_answer_seconds: Annotated[float, Meta(gt=0, le=5)] = MOST_SECONDS
    """Longest answer of a promoted network for all domains, before it is taken back. For tft."""
    corrections: bool = True
    """Whether the corrector shipped with the model is used where it helps. For tft."""
    choice_window_minutes: Annotated[float, Meta(ge=10, le=10080)] = choice.DEFAULTS.window_min
    """Window of outcomes over which the network and the calendar rule are compared. For tft."""
    choice_margin_share: Annotated[float, Meta(ge=0, lt=1)] = choice.DEFAULTS.margin
    """Share by which the calendar rule must err less before it serves. For tft."""
    choice_hysteresis_share: Annotated[float, Meta(ge=0, lt=1)] = choice.DEFAULTS.hysteresis
    """Part of that share that must be lost before the network serves again. For tft."""
    choice_stay_minutes: Annotated[int, Meta(ge=0, le=1440)] = choice.DEFAULTS.stay_min
    """Minimum time between two changes of the serving model. For tft."""
    most_width_factor: Annotated[float, Meta(gt=1, le=100)] = conformal.DEFAULTS.most_factor
    """Limit of the high quantile and the peak over the median or usual level. For tft."""

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise ValueError(f"model: expected one of {', '.join(MODELS)}, got {self.model}")
        if self.choice_hysteresis_share > self.choice_margin_share:
            raise ValueError(
                f"choice_hysteresis_share: expected at most the margin "
                f"({self.choice_margin_share:g}), got {self.choice_hysteresis_share:g}"
            )

    def learning(self, keys: str) -> Learning:
        """How the trained network is served; `keys` is the path of the public keys."""
        return Learning(
            folder=Path(self.model_folder) if self.model_folder else None,
            keys=Path(keys) if keys else None,
            settings=memory.Settings(
                choosing=choice.DEFAULTS._replace(
                    window_min=self.choice_window_minutes,
                    margin=self.choice_margin_share,
                    hysteresis=self.choice_hysteresis_share,
                    stay_min=self.choice_stay_minutes,
                ),
                calibration=conformal.DEFAULTS._replace(most_factor=self.most_width_factor),
                corrects=self.corrections,
            ),
        )

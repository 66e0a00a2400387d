"""What the forecaster can be told, beside what the kit asks for."""

from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from models.forecaster.learned import choice, conformal, memory
from services.forecaster.model import MODELS, Learning

SERVICE: Final = "forecaster"


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One forecaster per cluster."""

    cluster: str = ""
    """Path of a cluster description (YAML); the example cluster when empty."""
    model: str = "calendar"
    """calendar, seasonal, persistence, or tft: the trained network. What follows is for tft."""
    rule_minutes: Annotated[int, Meta(ge=30, le=1440)] = 120
    """For which a rule is made from the record, around this time of the days before; then anew."""
    model_folder: str = ""
    """Path of a folder with network.onnx and card.json; the shipped model when empty."""
    corrections: bool = True
    """Whether a corrector that is shipped with the model, and helps, is used."""
    choice_window_minutes: Annotated[float, Meta(ge=10, le=10080)] = choice.DEFAULTS.window_min
    """Of outcomes by which the model and the calendar are compared."""
    choice_margin_share: Annotated[float, Meta(ge=0, lt=1)] = choice.DEFAULTS.margin
    """By which the calendar must err less before it serves."""
    choice_hysteresis_share: Annotated[float, Meta(ge=0, lt=1)] = choice.DEFAULTS.hysteresis
    """Of this much of the margin must be lost before the model returns; at most the margin."""
    choice_stay_minutes: Annotated[int, Meta(ge=0, le=1440)] = choice.DEFAULTS.stay_min
    """After a change of the serving model in which there is no other."""
    most_width_factor: Annotated[float, Meta(gt=1, le=100)] = conformal.DEFAULTS.most_factor
    """High quantile and peak over the median or the usual level, at most."""

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise ValueError(f"model: expected one of {', '.join(MODELS)}, got {self.model}")
        if self.choice_hysteresis_share > self.choice_margin_share:
            raise ValueError(
                f"choice_hysteresis_share: expected at most the margin "
                f"({self.choice_margin_share:g}), got {self.choice_hysteresis_share:g}"
            )

    @property
    def learning(self) -> Learning:
        """How the trained network is served."""
        return Learning(
            folder=Path(self.model_folder) if self.model_folder else None,
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

"""The process: the handler with what the settings say."""

from services._kit.cluster_file import cluster_of
from services._kit.settings import KitSettings
from services.forecaster.decide import ForecasterHandler
from services.forecaster.settings import Settings


def build(kit: KitSettings, own: Settings) -> ForecasterHandler:
    """The one forecaster."""
    return ForecasterHandler(
        cluster_of(own.cluster), own.model, own.rule_minutes, kit.patience_seconds
    )

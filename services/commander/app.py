"""Builds the service from its settings."""

from services._kit.inventory import cluster_of, parameters_of
from services._kit.settings import KitSettings
from services.commander.decide import CommanderHandler
from services.commander.settings import Settings


def build(kit: KitSettings, own: Settings) -> CommanderHandler:
    """The only Commander."""
    return CommanderHandler(
        cluster_of(own.cluster), parameters_of(), kit.patience_seconds, own.await_forecasts
    )

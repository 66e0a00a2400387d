"""Builds the service from its settings."""

from models.control.tuned import tuned_parameters
from services._kit.inventory import cluster_of
from services._kit.settings import KitSettings
from services.commander.decide import CommanderHandler
from services.commander.settings import Settings


def build(kit: KitSettings, own: Settings) -> CommanderHandler:
    """The only Commander."""
    return CommanderHandler(
        cluster_of(own.cluster),
        tuned_parameters(),
        kit.patience_seconds,
        own.await_forecasts,
        kit.speed,
    )

"""Builds the service from its settings."""

from models.control.tuned import tuned_parameters
from services._kit.handler import Service
from services._kit.inventory import cluster_of
from services._kit.settings import KitSettings
from services.commander.decide import CommanderHandler
from services.commander.metrics import Metrics
from services.commander.settings import Settings
from services.commander.state import CommanderState


def build(kit: KitSettings, own: Settings) -> Service[CommanderState]:
    """The only Commander."""
    handler = CommanderHandler(
        cluster_of(own.cluster),
        tuned_parameters(),
        kit.tick_grace_seconds,
        own.await_forecasts,
        kit.speed,
    )
    return Service(handler, observe=Metrics)

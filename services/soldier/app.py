"""Builds the service from its settings."""

from models.control.parameters import Parts
from models.control.tuned import tuned_parameters
from services._kit.inventory import cluster_of
from services._kit.settings import KitSettings
from services.soldier.decide import SoldierHandler
from services.soldier.settings import Settings


def build(kit: KitSettings, own: Settings) -> SoldierHandler:
    """A Soldier for every domain that Kafka assigns to this process."""
    return SoldierHandler(
        cluster_of(own.cluster),
        tuned_parameters(),
        kit.tick_grace_seconds,
        kit.speed,
        Parts(vertical=own.vertical),
    )

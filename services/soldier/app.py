"""The process: the handler with what the settings say."""

from services._kit.cluster_file import cluster_of, parameters_of
from services._kit.settings import KitSettings
from services.soldier.decide import SoldierHandler
from services.soldier.settings import Settings


def build(kit: KitSettings, own: Settings) -> SoldierHandler:
    """A Soldier for every domain that Kafka gives to this process."""
    return SoldierHandler(cluster_of(own.cluster), parameters_of(), kit.patience_seconds)

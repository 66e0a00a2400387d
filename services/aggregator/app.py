"""Builds the service from its settings."""

from models.control.tuned import tuned_parameters
from services._kit.inventory import cluster_of
from services._kit.settings import KitSettings
from services.aggregator.decide import AggregatorHandler
from services.aggregator.settings import Settings


def build(kit: KitSettings, own: Settings) -> AggregatorHandler:
    """The aggregator of every domain that Kafka assigns to this process."""
    return AggregatorHandler(
        cluster_of(own.cluster), tuned_parameters(), kit.patience_seconds, kit.speed
    )

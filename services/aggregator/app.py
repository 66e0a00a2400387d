"""Builds the service from its settings."""

from services._kit.inventory import cluster_of, parameters_of
from services._kit.settings import KitSettings
from services.aggregator.decide import AggregatorHandler
from services.aggregator.settings import Settings


def build(kit: KitSettings, own: Settings) -> AggregatorHandler:
    """The aggregator of every domain that Kafka assigns to this process."""
    return AggregatorHandler(cluster_of(own.cluster), parameters_of(), kit.patience_seconds)

"""The process: the handler with what the settings say."""

from services._kit.cluster_file import cluster_of, parameters_of
from services._kit.settings import KitSettings
from services.aggregator.decide import AggregatorHandler
from services.aggregator.settings import Settings


def build(kit: KitSettings, own: Settings) -> AggregatorHandler:
    """Frames of every domain that Kafka gives to this process."""
    return AggregatorHandler(cluster_of(own.cluster), parameters_of(), kit.patience_seconds)

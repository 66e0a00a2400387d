"""Builds the service from its settings."""

from models.control.tuned import tuned_parameters
from services._kit.handler import Service
from services._kit.inventory import cluster_of
from services._kit.settings import KitSettings
from services.aggregator.agents import AgentAggregator, read_keys
from services.aggregator.decide import AggregatorHandler, AggregatorState
from services.aggregator.metrics import Metrics
from services.aggregator.settings import Settings


def build(kit: KitSettings, own: Settings) -> Service[AggregatorState]:
    """The aggregator of every domain that Kafka assigns to this process."""
    cluster, parameters = cluster_of(own.cluster, kit.domains), tuned_parameters()
    grace = kit.tick_grace_seconds
    if not own.agent_keys:
        return Service(AggregatorHandler(cluster, parameters, grace, kit.speed), observe=Metrics)
    keys = read_keys(own.agent_keys, cluster.domain_names)
    agents = AgentAggregator(cluster, parameters, grace, keys, kit.speed)
    return Service(agents, observe=Metrics)

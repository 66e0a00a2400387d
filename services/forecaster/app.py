"""Builds the service from its settings."""

from services._kit.handler import Service
from services._kit.inventory import cluster_of
from services._kit.models import loader, rules_of
from services._kit.settings import KitSettings
from services.forecaster.decide import ForecasterHandler, ForecasterState
from services.forecaster.metrics import Metrics
from services.forecaster.model import open_promoted
from services.forecaster.settings import Settings


def build(kit: KitSettings, own: Settings) -> Service[ForecasterState]:
    """The only forecaster."""
    handler = ForecasterHandler(
        cluster_of(own.cluster, kit.domains),
        own.model,
        own.rule_minutes,
        kit.tick_grace_seconds,
        own.learning(kit.model_keys),
        kit.speed,
        rules_of(kit, own.most_answer_seconds),
    )
    return Service(handler, loader(kit, "forecaster", open_promoted), observe=Metrics)

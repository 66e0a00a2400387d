"""Builds the service from its settings."""

from models.control.parameters import Parts
from models.control.tuned import tuned_parameters
from services._kit.handler import Service
from services._kit.inventory import cluster_of
from services._kit.models import RolloutMetrics, loader, rules_of
from services._kit.settings import KitSettings
from services.soldier.advice import open_policy
from services.soldier.decide import SoldierHandler
from services.soldier.settings import Settings
from services.soldier.state import SoldierState


def build(kit: KitSettings, own: Settings) -> Service[SoldierState]:
    """A Soldier for every domain that Kafka assigns to this process."""
    handler = SoldierHandler(
        cluster_of(own.cluster, kit.domains),
        tuned_parameters(),
        kit.tick_grace_seconds,
        kit.speed,
        Parts(vertical=own.vertical),
        rules_of(kit, own.most_policy_seconds),
    )
    return Service(handler, loader(kit, "soldier-policy", open_policy), observe=RolloutMetrics)

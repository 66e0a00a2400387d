"""Builds the service from its settings."""

from models.control.tuned import tuned_parameters
from models.registry.load import Artefact
from services._kit.handler import Service
from services._kit.inventory import DeclaredApps, cluster_of
from services._kit.models import loader, rules_of
from services._kit.settings import KitSettings
from services.commander.advice import Policy, open_policy
from services.commander.decide import CommanderHandler
from services.commander.metrics import Metrics
from services.commander.settings import Settings
from services.commander.state import CommanderState


def build(kit: KitSettings, own: Settings) -> Service[CommanderState]:
    """The only Commander."""
    cluster = cluster_of(own.cluster, kit.domains)
    handler = CommanderHandler(
        cluster,
        tuned_parameters(),
        kit.tick_grace_seconds,
        own.await_forecasts,
        kit.speed,
        rules_of(kit, own.most_policy_seconds),
    )
    inventory = DeclaredApps(cluster).inventory(())

    def opened(artefact: Artefact) -> Policy:
        return open_policy(artefact, inventory)

    return Service(handler, loader(kit, "commander-policy", opened), observe=Metrics)

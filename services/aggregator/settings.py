"""Settings of the aggregator, besides those of the kit."""

from typing import Final

import msgspec

SERVICE: Final = "aggregator"


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Domains are shared between processes by Kafka; there is nothing to say about that here."""

    cluster: str = ""
    """Path of a cluster description (YAML); the example cluster when empty."""
    agent_keys: str = ""
    """Folder with the keys of agents, a file per domain; nothing of agents is read when empty."""

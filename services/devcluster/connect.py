"""Client settings for the Kafka clusters that run on this machine."""

from pathlib import Path
from typing import Any

import msgspec

from models.inputs.errors import InputError
from services.admin.credentials import named_options, options, read_credentials
from services.devcluster import record
from services.devcluster.kafka import description
from services.devcluster.kafka.description import HOME, Description
from services.devcluster.kafka.security import ADMIN, credentials_file


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """A running embedded cluster, for tests and commands that connect to it."""

    home: Path
    cluster: Description

    @property
    def bootstrap(self) -> str:
        """Comma-separated addresses of the brokers."""
        return self.cluster.bootstrap

    def options(self, user: str = ADMIN) -> dict[str, Any]:
        """Arguments for a kafka-python client; `user` matters only on a secured cluster."""
        return options_for(self.home, self.cluster, user)


def options_of(bootstrap: str | None, credentials: Path | None = None) -> dict[str, Any]:
    """The named cluster, else the one of `hirl up`, else the one of `hirl kafka up`."""
    if bootstrap is not None or credentials is not None:
        return named_options(bootstrap, credentials)
    # A system has a Kafka of its own, which is not the one of `hirl kafka up`.
    run = record.read()
    if run is not None:
        return options_for_home(Path(run.kafka_home))
    cluster = description.read(HOME)
    if cluster is None:
        raise InputError("no Kafka runs here: start hirl up or hirl kafka up, or pass --bootstrap")
    return options_for(HOME, cluster)


def options_for_home(home: Path) -> dict[str, Any]:
    """The embedded cluster whose files are in `home`, as administrator."""
    cluster = description.read(home)
    if cluster is None:
        raise InputError(f"{home}: has no cluster")
    return options_for(home, cluster)


def options_for(home: Path, cluster: Description, user: str = ADMIN) -> dict[str, Any]:
    """The embedded cluster `cluster`, as one of its users."""
    if cluster.security == "plain":
        return options(cluster.bootstrap)
    return options(cluster.bootstrap, read_credentials(credentials_file(home, user)))

"""Settings of the simulated cluster's process, in addition to those of the kit.

`lock_step` and `speed` are settings of the kit, because the other services use them too.
"""

import argparse
import ipaddress
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from models.sim.config.physics import SCHEDULINGS

SERVICE: Final = "simcluster"
AS_FILE: Final = "file"
"""Scheduling as the physics file says."""
_KIT_FIELDS: Final = ("speed", "lock_step", "log_level", "kafka_bootstrap")


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One simulated cluster."""

    scenario: str
    """Name of a shipped scenario, or path of a file."""
    seed: Annotated[int, Meta(ge=0)] = 0
    """Seed of all randomness: the same seed gives the same world."""
    cluster: str = ""
    """Path of a cluster description (YAML); empty: the example cluster."""
    physics: str = ""
    """Path of the physics of that cluster (YAML); empty: those of the example cluster."""
    apps: Annotated[int, Meta(ge=0)] = 0
    """Scale the cluster to this number of apps; 0: as in the file."""
    scheduling: str = "priority"
    """How pods are placed: fifo, priority, priority+preemption, or file."""
    host: str = "127.0.0.1"
    """Address to listen on. Nothing is authenticated: keep it on loopback."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 8700
    """Port to listen on; 0: any free port."""
    kafka: bool = True
    """Whether to read node requests from Kafka; HTTP always accepts them."""
    linger_seconds: float = 60.0
    """How long to keep answering after the end of the scenario; negative: until stopped."""

    def __post_init__(self) -> None:
        if self.scheduling not in (AS_FILE, *SCHEDULINGS):
            names = ", ".join((*SCHEDULINGS, AS_FILE))
            raise ValueError(f"scheduling: expected one of {names}, got {self.scheduling}")

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            # A host name: it may resolve to any address, so assume that others can reach it.
            return False


def with_arguments(arguments: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The environment, overridden by the command line: `--seed` is HIRL_SIMCLUSTER_SEED."""
    own = msgspec.structs.fields(Settings)
    # Options become variables, so that both are validated in one place, `load`.
    variables = {field.name: f"HIRL_SIMCLUSTER_{field.name.upper()}" for field in own}
    variables |= {name: f"HIRL_{name.upper()}" for name in _KIT_FIELDS}
    parser = argparse.ArgumentParser(
        prog="python -m services.simcluster",
        description="A simulated cluster behind an HTTP API. Each option can be a variable, too.",
    )
    for name, variable in variables.items():
        parser.add_argument(f"--{name.replace('_', '-')}", metavar="X", help=variable)
    given = vars(parser.parse_args(arguments))
    overrides = {variables[name]: value for name, value in given.items() if value is not None}
    return {**environment, **overrides}

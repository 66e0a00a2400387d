"""HIRL_KAFKA_* variables as arguments of kafka-python.

This module imports no Kafka client, so commands that only read files stay fast.
"""

import os
from pathlib import Path
from typing import Any

from models.inputs.errors import InputError
from services._kit.errors import BadSettings
from services._kit.settings import with_secrets


def named_options(bootstrap: str | None, credentials: Path | None) -> dict[str, Any]:
    """The brokers and user of the arguments, of the credentials file or of the environment."""
    variables = read_credentials(credentials) if credentials else dict(os.environ)
    try:
        variables = with_secrets(variables)
    except BadSettings as error:
        raise InputError(str(error)) from None
    servers = bootstrap or variables.get("HIRL_KAFKA_BOOTSTRAP")
    if not servers:
        where = credentials or "the environment"
        raise InputError(f"{where} has no HIRL_KAFKA_BOOTSTRAP; pass --bootstrap")
    for server in servers.split(","):
        host, _, port = server.rpartition(":")
        if not host or not port.isdecimal():
            raise InputError(f"bootstrap: expected HOST:PORT, got {server}")
    return options(servers, variables)


def options(bootstrap: str, credentials: dict[str, str] | None = None) -> dict[str, Any]:
    """Arguments for any kafka-python client; `credentials` as in a SERVICE.env file."""
    result: dict[str, Any] = {"bootstrap_servers": bootstrap.split(",")}
    if credentials and credentials.get("HIRL_KAFKA_SECURITY", "PLAINTEXT") != "PLAINTEXT":
        result |= {
            "security_protocol": credentials["HIRL_KAFKA_SECURITY"],
            "sasl_mechanism": credentials.get("HIRL_KAFKA_MECHANISM", "SCRAM-SHA-512"),
            "sasl_plain_username": credentials.get("HIRL_KAFKA_USER"),
            "sasl_plain_password": credentials.get("HIRL_KAFKA_PASSWORD"),
            "ssl_cafile": credentials.get("HIRL_KAFKA_CA"),
        }
    return result


def read_credentials(path: Path) -> dict[str, str]:
    """The variables of a credentials file."""
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    # At the first `=` only: a password may contain more.
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, value in pairs}

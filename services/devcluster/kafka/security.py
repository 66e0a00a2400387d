"""Access to a secured embedded cluster: a private authority, and a password per service."""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from services.admin.credentials import read_credentials
from services.admin.desired import services
from services.devcluster import certificates

ADMIN: Final = "admin"
"""The super user, who creates topics and ACLs."""
COMMON_NAME: Final = "hirl-broker"
"""Brokers recognise each other by this name in a certificate of our own authority."""
MECHANISM: Final = "SCRAM-SHA-512"
_PRIVATE: Final = 0o600
"""Readable and writable by the owner only."""


def users() -> tuple[str, ...]:
    """All users with a password: the services of schemas/topics.py and the administrator."""
    return (*services(), ADMIN)


def new_passwords() -> dict[str, str]:
    """A random password for each user."""
    return {user: secrets.token_urlsafe(24) for user in users()}


def stored_passwords(home: Path) -> dict[str, str]:
    """The passwords in the credentials files."""
    # A service that was added since has no file: users are created when the data is formatted.
    files = {user: credentials_file(home, user) for user in users()}
    return {
        user: read_credentials(file)["HIRL_KAFKA_PASSWORD"]
        for user, file in files.items()
        if file.is_file()
    }


def scram_arguments(passwords: Mapping[str, str]) -> list[str]:
    """StorageTool's arguments that create the users."""
    return [
        word
        for user, password in passwords.items()
        for word in ("--add-scram", f"{MECHANISM}=[name={user},password={password}]")
    ]


def authority_file(home: Path) -> Path:
    """The certificate that clients trust."""
    return (home / "tls" / "ca.pem").resolve()


def key_store_file(home: Path) -> Path:
    """Private key and certificate of the brokers, in one file as Kafka expects it."""
    return (home / "tls" / "broker.pem").resolve()


def credentials_file(home: Path, user: str) -> Path:
    """The HIRL_KAFKA_* variables with which `user` connects."""
    return home / "credentials" / f"{user}.env"


def write_credentials(home: Path, bootstrap: str, passwords: Mapping[str, str]) -> None:
    """Write one file per user, readable by its owner only."""
    for user, password in passwords.items():
        values = {
            "HIRL_KAFKA_BOOTSTRAP": bootstrap,
            "HIRL_KAFKA_SECURITY": "SASL_SSL",
            "HIRL_KAFKA_MECHANISM": MECHANISM,
            "HIRL_KAFKA_USER": user,
            "HIRL_KAFKA_PASSWORD": password,
            "HIRL_KAFKA_CA": str(authority_file(home)),
        }
        lines = (f"{name}={value}\n" for name, value in values.items())
        write_private(credentials_file(home, user), "".join(lines))


def write_private(path: Path, text: str) -> None:
    """Write a secret into a file that is private before it has any content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # O_EXCL needs a new file: an existing one could be readable by others.
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE), "w") as file:
        file.write(text)


def create_certificates(home: Path) -> None:
    """Create a private authority and one certificate for all brokers, which run on one machine."""
    folder = home / "tls"
    certificates.create(folder, "broker", COMMON_NAME)
    both = (folder / name for name in ("broker.key", "broker.crt"))
    write_private(folder / "broker.pem", "".join(file.read_text() for file in both))

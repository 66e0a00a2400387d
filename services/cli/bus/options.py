"""Options of the commands that connect to a broker."""

from typing import Any

import typer


def bootstrap_option(default: str) -> Any:
    """`--bootstrap`; `default` says which brokers are used without it."""
    return typer.Option(
        "--bootstrap",
        metavar="HOST:PORT",
        envvar="HIRL_KAFKA_BOOTSTRAP",
        help=f"Brokers, comma-separated; {default} when not given.",
    )


def credentials_option(whose: str) -> Any:
    """`--credentials`; `whose` says what the user has to be allowed to do."""
    return typer.Option("--credentials", metavar="FILE", help=f"HIRL_KAFKA_* variables of {whose}.")

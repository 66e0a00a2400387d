"""`hirl state`: show a saved state, and make a service drop one."""

import time
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from services.cli.bus.tail import BootstrapOption, CredentialsOption
from services.cli.commands import examples
from services.cli.options import JsonOption
from services.cli.output import write_json

ServiceArgument = Annotated[
    str, typer.Argument(metavar="SERVICE", help="A service, for example soldier.")
]
KeyArgument = Annotated[
    str, typer.Argument(metavar="KEY", help="A domain; `cluster` of commander and forecaster.")
]
ReasonOption = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why, in plain words, for the audit.")
]


@examples("hirl state show commander cluster", "hirl state show soldier payments --json s.json")
def show(
    service: ServiceArgument,
    key: KeyArgument,
    bootstrap: BootstrapOption = None,
    credentials: CredentialsOption = None,
    json: JsonOption = None,
) -> None:
    """Print what a service has saved of a domain or of the cluster."""
    # kafka-python is slow to import, and help texts don't need it.
    from services.admin.states import abbreviated, decoded, read_state  # noqa: PLC0415
    from services.devcluster.connect import options_of  # noqa: PLC0415

    data = read_state(options_of(bootstrap, credentials), service, key)
    state = abbreviated(decoded(data))
    console = Console()
    console.print(f"{service}/{key}: {len(data):,} bytes", highlight=False)
    for line in _lines(state):
        console.print(line, highlight=False, markup=False, overflow="ellipsis", no_wrap=True)
    if json is not None:
        write_json(json, state)


@examples('hirl state reset soldier payments --reason "obeys a budget of a test cluster"')
def reset(
    service: ServiceArgument,
    key: KeyArgument,
    reason: ReasonOption,
    bootstrap: BootstrapOption = None,
    credentials: CredentialsOption = None,
    json: JsonOption = None,
) -> None:
    """Drop the saved state of a domain or the cluster; audited on hirl.rejected.v1."""
    from services.admin.states import order_reset, read_state  # noqa: PLC0415
    from services.devcluster.connect import options_of  # noqa: PLC0415

    options = options_of(bootstrap, credentials)
    # An order for a state that does not exist would drop the next one of its name.
    size = len(read_state(options, service, key))
    order = order_reset(options, service, key, reason, time.time())
    console = Console()
    console.print(
        f"ordered {order.id} by {order.issued_by}: {service} drops {size:,} bytes of {key} now, "
        "or when it starts; hirl tail dead-letters shows what was dropped",
        highlight=False,
        markup=False,
    )
    if json is not None:
        write_json(json, order)


def _lines(value: Any, path: str = "") -> Iterator[str]:
    """One line per value, with its path; an array is one value."""
    if isinstance(value, Mapping) and "array" not in value:
        for name, one in value.items():
            yield from _lines(one, f"{path}.{name}" if path else name)
    else:
        yield f"{path}: {msgspec.json.encode(value).decode()}"

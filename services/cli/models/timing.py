"""`hirl models time`: how long a policy takes to answer on this machine."""

import time
from collections.abc import Callable
from typing import Annotated, Any, Final

import numpy as np
import typer
from rich.console import Console

from models.inputs.errors import InputError
from models.registry.load import Artefact
from services.cli.commands import examples
from services.cli.models.options import ArtefactArgument, KeysOption, Place, StoreOption
from services.cli.options import JsonOption
from services.cli.output import plain_console, table, write_json

_WARM_UP: Final = 50


@examples(
    "hirl models time .hirl/models/soldier --domains 5", "hirl models time 4785f03a8924 --calls 500"
)
def time_model(
    artefact: ArtefactArgument,
    domains: Annotated[
        int, typer.Option("--domains", min=1, max=500, metavar="N", help="Domains of the cluster.")
    ] = 5,
    calls: Annotated[
        int, typer.Option("--calls", min=100, max=100_000, metavar="N", help="Answers to time.")
    ] = 2000,
    store: StoreOption = None,
    keys: KeysOption = None,
    json: JsonOption = None,
) -> None:
    """Time the answers of a policy for a whole cluster, as services ask it.

    The network alone, with checks of what it answers; what it sees is made up. A Soldier is asked
    once a tick for its domain, whatever the number of apps; the Commander once a minute.
    """
    found = Place(store, keys).artefact(artefact)
    ask = _asking(found, domains)
    seconds = np.empty(calls)
    for at in range(-_WARM_UP, calls):
        began = time.perf_counter()
        ask()
        if at >= 0:
            seconds[at] = time.perf_counter() - began
    p50, p99 = (float(value) * 1e3 for value in np.quantile(seconds, (0.5, 0.99)))
    rows = [(found.name, domains, calls, f"{p50:.3f}", f"{p99:.3f}")]
    columns = ("policy", "domains", "calls", "p50 ms", "p99 ms")
    Console().print(table("Time of an answer", columns, rows))
    if json is not None:
        write_json(json, {"domains": domains, "calls": calls, "p50_ms": p50, "p99_ms": p99})
        plain_console().print(f"JSON: {json}")


def _asking(artefact: Artefact, domains: int) -> Callable[[], Any]:
    """A call of the policy, with inputs of the contract's shapes."""
    from models.policies import contract  # noqa: PLC0415  loads numpy and onnxruntime
    from models.policies.inputs import CommanderInputs  # noqa: PLC0415  as above
    from models.policies.soldier_inputs import SoldierInputs  # noqa: PLC0415  as above
    from models.registry.session import open_session  # noqa: PLC0415  as above
    from services.soldier.advice import network_of  # noqa: PLC0415  as above

    random, session = np.random.default_rng(0), open_session(artefact)
    sizes = {"rows": 1, "domains": domains, "pools": 3}

    def made(shape: tuple[int | str, ...]) -> Any:
        lengths = [one if isinstance(one, int) else sizes[one] for one in shape]
        return random.uniform(0.0, 1.0, lengths).astype(np.float32)

    if artefact.manifest.kind == "commander-policy":
        command = CommanderInputs(**{one.name: made(one.shape) for one in contract.INPUTS})
        return lambda: session.run(command._asdict())
    if artefact.manifest.kind == "soldier-policy":
        sizes["rows"] = domains
        plain = {one.name: made(one.shape)[None] for one in contract.SOLDIER_INPUTS}
        network = network_of(session)
        return lambda: network(SoldierInputs(**plain))
    raise InputError(f"{artefact.name}: is no policy; hirl models evaluate times forecasters")

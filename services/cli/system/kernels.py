"""`hirl kernels`: compile what the services and the simulated cluster compute with."""

import time

from rich.console import Console

from services.cli.commands import examples
from services.cli.options import JsonOption
from services.cli.output import progress, write_json


@examples("hirl kernels")
def kernels(json: JsonOption = None) -> None:
    """Compile the kernels of all services and of the simulated cluster into the cache.

    They are compiled once for a CPU and a version: about three minutes on two cores, then seconds.
    Services compile what is missing when they start.
    """
    began = time.monotonic()
    console = Console(emoji=False, highlight=False)
    compiled = compile_missing(console)
    console.print(f"{compiled} kernels are compiled")
    if json:
        write_json(json, {"compiled": compiled, "seconds": time.monotonic() - began})


def compile_missing(console: Console) -> int:
    """Compile with a progress bar; returns how many kernels are in the cache."""
    # The models take seconds to import, and help texts need none.
    from models.jit import count_compiled  # noqa: PLC0415
    from services.devcluster.kernels import compile_all  # noqa: PLC0415

    shown, known = count_compiled()
    with progress("compiling kernels, only this once", known - shown, console) as advance:

        def show(compiled: int) -> None:
            nonlocal shown
            advance(compiled - shown)
            shown = compiled

        compile_all(show)
    return shown

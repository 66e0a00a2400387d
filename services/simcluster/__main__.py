"""`python -m services.simcluster --scenario cascade`: one simulated cluster."""

import asyncio
import os
import sys

from services._kit import logs
from services._kit.main import guarded
from services._kit.settings import load
from services.simcluster.app import run
from services.simcluster.settings import SERVICE, Settings, with_arguments


def work() -> None:
    """Run until the scenario has ended."""
    environment = with_arguments(sys.argv[1:], os.environ)
    kit, settings = load(SERVICE, Settings, environment)
    logs.set_up(SERVICE, kit.instance, kit.log_level)
    asyncio.run(run(settings, kit))


if __name__ == "__main__":
    sys.exit(guarded(SERVICE, work))

"""`python -m services.collector [FILE]`: the collector, publishing to Kafka."""

import asyncio
import os
import sys

from services._kit import logs
from services._kit.main import guarded
from services._kit.settings import load
from services.collector.app import run
from services.collector.settings import SERVICE, Settings


def work() -> None:
    """Run until the source has ended or a signal arrives."""
    kit, settings = load(SERVICE, Settings, os.environ, *sys.argv[1:2])
    logs.set_up(SERVICE, kit.instance, kit.log_level)
    asyncio.run(run(settings, kit))


if __name__ == "__main__":
    sys.exit(guarded(SERVICE, work))

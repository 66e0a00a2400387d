"""`python -m services.collector [SETTINGS]`: brings a cluster's measurements to the bus."""

import asyncio
import logging
import os
import sys

from services._kit import logs
from services._kit.settings import BadSettings, load
from services.collector.app import run
from services.collector.queries import BadQueries
from services.collector.settings import SERVICE, Settings

log = logging.getLogger(__name__)


def main() -> int:
    """Run until the source has ended; status 2 for bad settings, 1 for a failure."""
    try:
        kit, settings = load(SERVICE, Settings, os.environ, *sys.argv[1:2])
        logs.set_up(SERVICE, kit.instance, kit.log_level)
        asyncio.run(run(settings, kit))
    except (BadSettings, BadQueries) as error:
        print(f"hirl-collector: {error}", file=sys.stderr)  # noqa: T201  for whoever started it
        return 2
    except Exception:
        log.exception("collector stops")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

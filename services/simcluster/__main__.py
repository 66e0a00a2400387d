"""`python -m services.simcluster --scenario cascade`: one simulated cluster."""

import asyncio
import logging
import os
import sys

from models.sim.describe.errors import InputError
from services._kit import logs
from services._kit.settings import BadSettings, load
from services.simcluster.app import run
from services.simcluster.settings import SERVICE, Settings, with_arguments

log = logging.getLogger(__name__)


def main() -> int:
    """Run until the scenario has ended; status 2 for bad settings, 1 for a failure."""
    try:
        environment = with_arguments(sys.argv[1:], os.environ)
        kit, settings = load(SERVICE, Settings, environment)
        logs.set_up(SERVICE, kit.instance, kit.log_level)
        asyncio.run(run(settings, kit))
    except (BadSettings, InputError) as error:
        print(f"hirl-simcluster: {error}", file=sys.stderr)  # noqa: T201  for whoever started it
        return 2
    except Exception:
        log.exception("simcluster stops")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

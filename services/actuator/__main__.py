"""`python -m services.actuator [FILE]`: the actuator on Kafka."""

import sys

from services._kit.main import run
from services.actuator.app import build
from services.actuator.settings import SERVICE, Settings

if __name__ == "__main__":
    sys.exit(run(SERVICE, build, Settings))

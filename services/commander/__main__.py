"""`python -m services.commander [FILE]`: the Commander on Kafka."""

import sys

from services._kit.main import run
from services.commander.app import build
from services.commander.settings import SERVICE, Settings

if __name__ == "__main__":
    sys.exit(run(SERVICE, build, Settings))

"""`python -m services.soldier [FILE]`: the Soldiers on Kafka."""

import sys

from services._kit.main import run
from services.soldier.app import build
from services.soldier.settings import SERVICE, Settings

if __name__ == "__main__":
    sys.exit(run(SERVICE, build, Settings))

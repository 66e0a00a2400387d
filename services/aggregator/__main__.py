"""`python -m services.aggregator [FILE]`: the aggregator on Kafka."""

import sys

from services._kit.main import run
from services.aggregator.app import build
from services.aggregator.settings import SERVICE, Settings

if __name__ == "__main__":
    sys.exit(run(SERVICE, build, Settings))

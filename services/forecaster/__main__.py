"""`python -m services.forecaster [FILE]`: the forecaster on Kafka."""

import sys

from services._kit.main import run
from services.forecaster.app import build
from services.forecaster.settings import SERVICE, Settings

if __name__ == "__main__":
    sys.exit(run(SERVICE, build, Settings))

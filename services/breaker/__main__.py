"""`python -m services.breaker [FILE]`: the breaker on Kafka."""

import sys

from services._kit.main import run
from services.breaker.app import build
from services.breaker.settings import SERVICE, Settings

if __name__ == "__main__":
    sys.exit(run(SERVICE, build, Settings))

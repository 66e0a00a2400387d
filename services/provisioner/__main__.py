"""`python -m services.provisioner [FILE]`: the provisioner on Kafka."""

import sys

from services._kit.main import run
from services.provisioner.app import build
from services.provisioner.settings import SERVICE, Settings

if __name__ == "__main__":
    sys.exit(run(SERVICE, build, Settings))

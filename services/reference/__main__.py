"""`python -m services.reference`: write every page that is stale."""

import sys

from services.reference.pages import write_stale

if __name__ == "__main__":
    written = ", ".join(write_stale()) or "nothing, all pages are current"
    sys.stdout.write(f"docs: wrote {written}\n")

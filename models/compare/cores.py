"""How many cores there are to share work among."""

import os


def cores() -> int:
    """Cores this process may use."""
    available = getattr(os, "sched_getaffinity", None)
    return len(available(0)) if available is not None else os.cpu_count() or 1

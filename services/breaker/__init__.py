"""The breaker: frames and applied changes in, open or closed per domain out (`decide.py`).

Only tools that run all services in one process and tests import it; services meet on the bus. The
rules and thresholds are in `models/control/breaker/`. It must not act itself: the actuator obeys
its events.
"""

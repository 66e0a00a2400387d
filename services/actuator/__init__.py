"""The actuator: plans in, writes to the cluster, outcomes out (`decide.py`).

`ruling.py` decides what may be applied, `target.py` writes it. Only tools that run all services in
one process and tests import it; services meet on the bus. It is the only service that changes the
cluster.
"""

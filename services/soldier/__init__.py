"""The Soldiers: frames and budgets in, one plan per domain and tick out (`decide.py`).

Only tools that run all services in one process and tests import it; services meet on the bus. The
arithmetic is in `models/control`. A Soldier sees its own domain only, and must not write to the
cluster.
"""

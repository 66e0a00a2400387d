"""The Commander: plans, forecasts and pools in, budgets and node requests out (`decide.py`).

`transition.py` records its steps for retraining. Only tools that run all services in one process
and tests import it; services meet on the bus. It sees sums of domains, never single apps, and it
must not write to the cluster.
"""

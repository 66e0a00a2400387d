"""The aggregator: samples of a domain in, one frame per tick out (`decide.py`).

`samples.py` sums up the samples of an open tick. Only tools that run all services in one process
and tests import it; services meet on the bus. It must not decide anything about capacity.
"""

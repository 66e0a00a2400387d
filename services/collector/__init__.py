"""The collector: samples of real or simulated clusters in, sampled metrics on the bus out.

It reads Prometheus (`prometheus.py`) or the simulated cluster (`simulated.py`) and backfills the
recorded demand. It is a plain process without a handler: it has no inputs on the bus. Only tests
import it. It must not aggregate or interpret samples: that is the aggregator's.
"""

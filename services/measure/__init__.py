"""Measurements on a running bus (latency, capacity, codec cost), and injected faults (`chaos`).

The commands `hirl bench path`, `size` and `override`, `hirl schemas speed` and `hirl chaos` call
it. It starts development clusters of its own through `services.devcluster`; services never import
it. It returns figures and prints nothing.
"""

"""Measurements on a running bus: latency from sample to change, capacity, codec cost.

The commands `hirl bench path`, `hirl bench size` and `hirl schemas speed` call it. It starts
development clusters of its own through `services.devcluster`; services never import it. It returns
figures and prints nothing.
"""

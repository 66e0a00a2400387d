"""The simulated cluster as a service: observations and writes over HTTP, requests from Kafka.

`cluster.py` wraps the simulator's world, `http.py` serves it, `target.py` applies writes. The only
service that may import `models.sim`. Only tools that run everything in one process and tests
import it; to the other services it is a cluster like a real one.
"""

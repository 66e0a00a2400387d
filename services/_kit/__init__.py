"""What every service shares: the handler port, the engine that drives it, and its adapters.

Read `handler.py` first. `engine.py` drives a handler on any bus, `steps.py` carries out each of its
steps; `worker.py` with `faust_app.py` (or `plain.py`) is Kafka, `memory.py` a bus in one process.
`arrays.py`, `inventory.py` and `ticks.py` map events to model inputs; `kubernetes/` is a client of
the Kubernetes API. All services, tools and tests may import it. It imports `schemas` and `models`,
but no service: nothing here may know what a service decides.
"""

"""A development cluster on one machine: Kafka, Prometheus, and every service under a supervisor.

`launch` starts it, `lifecycle` stops it, `supervisor` keeps the services running, `record` is the
file through which commands find it, and `memory` runs the same services in one process without a
broker. `services.cli` and `services.measure` import this package; services never do. It starts
and stops only its own processes, and it prints nothing: progress goes to a callback.
"""

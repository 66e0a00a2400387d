"""`hirl kafka`, `topics`, `schemas`, `tail` and `explain`: the bus and its events.

Administration and reading are in `services.admin`, the embedded Kafka in `services.devcluster`.
"""

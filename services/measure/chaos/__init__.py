"""Faults injected into a running system on a real Kafka, and what became of every change.

`run.py` starts systems and injects the faults of `faults.py` in random order; `records.py` makes
hostile records, `flaky_target.py` stands between actuator and target, and `audit.py` compares the
target's journal with the topics afterwards. `hirl chaos` prints the table. It only touches
processes and brokers that it started itself.
"""

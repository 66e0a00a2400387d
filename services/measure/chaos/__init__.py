"""Faults injected into a running system on a real Kafka, and what became of every change.

`faults.py` lists the kinds; the modules that it imports inject them. `run.py` starts systems and
injects faults in random order, `audit.py` compares the target's journal with the topics afterwards,
and `report.py` sums up. `flaky_source.py` and `flaky_target.py` stand between the services and the
simulated cluster, `inside` runs in each service. `hirl chaos` prints the table. It only touches
processes and brokers that it started itself.
"""

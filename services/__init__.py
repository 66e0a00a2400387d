"""Events in, events out: the services, and the tools around them.

Services, one process each: `collector`, `aggregator`, `forecaster`, `commander`, `soldier`,
`actuator`, `breaker`, and `simcluster`, which stands in for a real cluster. They meet on the bus
and never import each other. Tools: `cli` (the `hirl` command), `devcluster` (everything on one
machine), `admin` (topics, ACLs, reading events), `measure` (path measurements and injected faults)
and `reference` (generates docs/reference). `_kit` is what every service shares. A service maps
events to arrays and calls `models`; the arithmetic is there.
"""

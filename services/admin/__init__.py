"""Administration of any Kafka cluster that carries our topics: production tooling.

`desired` derives topics and ACLs from `schemas/topics.py`, `reconcile` compares a broker with
them and fixes it, and `reader` reads events back without joining a consumer group. The tools
`devcluster`, `measure` and `cli` import this package; services never do. It must not assume that
Kafka runs on this machine, and it never deletes topics, records or ACLs.
"""

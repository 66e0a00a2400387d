"""The wire contract: every event on the bus, its topic, and how it becomes a Kafka record.

Read `topics.py` first, then one file per event. `codec.py` encodes and decodes records;
`generate.py` writes `json/` and `asyncapi.yaml` for readers in other languages, and
`compatibility.py` compares them with every release in `released/`. Any layer may import this
package. It imports neither `models` nor `services`, does no IO beyond its own generated files, and
holds no decisions: an event carries numbers, it doesn't compute them.
"""

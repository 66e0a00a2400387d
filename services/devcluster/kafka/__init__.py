"""The embedded Apache Kafka: Java and jars, data folders, certificates, start and stop.

`cluster` is the entry point; `description` is the file through which commands find a cluster.
Only `services.devcluster` and the tools above it import this package. It knows nothing about our
topics' contents: `services.admin` creates them.
"""

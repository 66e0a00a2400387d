"""An embedded Kafka cluster: started, stopped, and one broker killed and started again."""

from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console

from models.inputs.errors import InputError
from services.devcluster import processes
from services.devcluster.kafka import description, properties, provision, storage
from services.devcluster.kafka.description import HOME, Description, Node, Security
from services.devcluster.kafka.provision import Runtime

_SMALL: Final = ("-Xmx512m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""The quick compiler only: it halves the work of a start, and thousands of records a second do
not need the other."""
_START_S: Final = 90.0
_STOP_S: Final = 20.0
_LOG_LINES: Final = 3


def is_up(home: Path, node: Node) -> bool:
    """Whether the broker's process is there."""
    return processes.is_running(node.pid, str(properties.file_of(home, node)))


def running(home: Path = HOME) -> Description | None:
    """The cluster of that home, if every broker of it runs."""
    cluster = description.read(home)
    if cluster is None or not all(is_up(home, node) for node in cluster.nodes):
        return None
    return cluster


def start(
    home: Path = HOME,
    *,
    brokers: int = 1,
    secure: bool = False,
    port: int | None = None,
    console: Console | None = None,
) -> Description:
    """Start a cluster and wait until all of it answers; one that runs is left as it is."""
    console = console or Console(quiet=True)
    wanted: Security = "sasl_ssl" if secure else "plain"
    with processes.locked(home):
        before = description.read(home)
        if before is not None:
            _refuse_another_kind(home, before, brokers, wanted)
            if any(is_up(home, node) for node in before.nodes):
                _refuse_another_port(before, port)
                return _completed(home, before)
        runtime = provision.runtime(console)
        cluster = _planned(before, brokers, wanted, port, runtime.version)
        # Written before anything is made, so that `down --wipe` knows of it whatever happens.
        description.write(home, cluster)
        storage.prepare(home, cluster, runtime, console)
        console.print(f"starting {brokers} broker(s) at {cluster.bootstrap}")
        return _completed(home, cluster)


def stop(home: Path = HOME, *, wipe: bool = False, patience_s: float = _STOP_S) -> int:
    """Stop the brokers that we started, all at once; returns how many there were."""
    with processes.locked(home):
        cluster = description.read(home)
        stopped = 0 if cluster is None else _stop(home, cluster, patience_s)
        if wipe:
            storage.wipe(home)
    return stopped


def kill_broker(node_id: int, home: Path = HOME) -> None:
    """End one broker as a crash would; `restart_broker` brings it back."""
    cluster = description.read(home)
    for node in cluster.nodes if cluster else ():
        if node.id == node_id:
            processes.kill(node.pid, str(properties.file_of(home, node)))
            return
    raise InputError(f"{home}: has no broker {node_id}")


def restart_missing(home: Path = HOME) -> Description:
    """Start every broker that is not up, with its data, and wait until all of them answer."""
    with processes.locked(home):
        cluster = description.read(home)
        if cluster is None:
            raise InputError(f"{home}: has no cluster")
        return _completed(home, cluster)


def _completed(home: Path, cluster: Description) -> Description:
    """The cluster with every broker up and answering, or nothing of it left running."""
    if any(not is_up(home, node) for node in cluster.nodes):
        runtime = provision.runtime(Console(quiet=True))
        nodes = tuple(_started(home, node, runtime) for node in cluster.nodes)
        cluster = msgspec.structs.replace(cluster, nodes=nodes)
        description.write(home, cluster)
    try:
        _wait(home, cluster)
    except (InputError, KeyboardInterrupt):
        _stop(home, cluster, _STOP_S)
        raise
    return cluster


def _started(home: Path, node: Node, runtime: Runtime) -> Node:
    if is_up(home, node):
        return node
    configuration = str(properties.file_of(home, node))
    command = [runtime.java, *_SMALL, *runtime.options, "kafka.Kafka", configuration]
    pid = processes.start(command, properties.log_of(home, node))
    return msgspec.structs.replace(node, pid=pid)


def _wait(home: Path, cluster: Description) -> None:
    # kafka-python is slow to import, and only where services run.
    from services.admin import client  # noqa: PLC0415
    from services.devcluster.connect import options_for  # noqa: PLC0415

    def check() -> None:
        for node in cluster.nodes:
            if not is_up(home, node):
                log = properties.log_of(home, node)
                last = log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
                raise InputError(f"broker {node.id} ended at its start, see {log}: {last}")

    told = client.wait_until_answering(options_for(home, cluster), _START_S, check)
    if told != cluster.cluster_id:
        raise InputError(f"{cluster.bootstrap} is another cluster: {told}")


def _stop(home: Path, cluster: Description, patience_s: float) -> int:
    up = [node for node in cluster.nodes if is_up(home, node)]
    processes.end_all([(node.pid, str(properties.file_of(home, node))) for node in up], patience_s)
    nodes = tuple(msgspec.structs.replace(node, pid=None) for node in cluster.nodes)
    description.write(home, msgspec.structs.replace(cluster, nodes=nodes))
    return len(up)


def _refuse_another_kind(home: Path, before: Description, brokers: int, wanted: Security) -> None:
    if (len(before.nodes), before.security) != (brokers, wanted):
        raise InputError(
            f"{home} has a cluster with {len(before.nodes)} broker(s), {before.security}; "
            "remove it first: hirl kafka down --wipe"
        )


def _refuse_another_port(before: Description, port: int | None) -> None:
    if port not in {None, before.nodes[0].port}:
        raise InputError(
            f"Kafka runs at {before.bootstrap}; to move it, stop it first: hirl kafka down"
        )


def _planned(
    before: Description | None, brokers: int, wanted: Security, port: int | None, version: str
) -> Description:
    """The cluster to be: where it was if its ports are still free, so that clients find it."""
    if before is not None and port is None and _ports_free(before.nodes):
        return msgspec.structs.replace(before, version=version)
    nodes = description.new_nodes(brokers, wanted, port, processes.free_ports(3 * brokers))
    if port is not None and not _ports_free(nodes):
        raise InputError(f"--port: {port} is taken by another process, choose another")
    return Description(
        bootstrap=description.bootstrap_of(nodes),
        version=version,
        cluster_id=storage.new_cluster_id() if before is None else before.cluster_id,
        security=wanted,
        nodes=nodes,
    )


def _ports_free(nodes: tuple[Node, ...]) -> bool:
    ports = {port for node in nodes for port in (node.port, node.controller_port, node.broker_port)}
    return all(processes.is_free(port) for port in ports)

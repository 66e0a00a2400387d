"""Start and stop an embedded Kafka cluster; kill and restart single brokers."""

from pathlib import Path
from typing import Final

import msgspec

from models.inputs.errors import InputError
from services.devcluster import processes
from services.devcluster.kafka import description, provision, storage
from services.devcluster.kafka.description import HOME, Description, Node, Security
from services.devcluster.kafka.provision import Runtime
from services.devcluster.processes import Notify, silent

_SMALL: Final = ("-Xmx512m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Only the quick JIT compiler: it halves the work of a start and is fast enough for thousands of
records a second."""
_START_S: Final = 90.0
"""Timeout for all brokers to start; a broker that ends meanwhile is reported at once."""
_STOP_S: Final = 20.0
"""Timeout for a clean stop, which makes the next start faster; then brokers are killed."""
_LOG_LINES: Final = 3


def is_up(home: Path, node: Node) -> bool:
    """Whether the broker's process runs."""
    return _process(home, node) is not None


def running(home: Path = HOME) -> Description | None:
    """The cluster in `home` if all its brokers run."""
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
    notify: Notify = silent,
) -> Description:
    """Start a cluster and wait until all brokers answer; a running cluster stays as it is."""
    security: Security = "sasl_ssl" if secure else "plain"
    with processes.locked(home):
        before = description.read(home)
        if before is not None:
            _check_same_kind(home, before, brokers, security)
            # Some brokers may have been killed: complete the cluster instead of a second start.
            if any(is_up(home, node) for node in before.nodes):
                _check_same_port(before, port)
                return _complete(home, before)
        runtime = provision.runtime(notify)
        cluster = _plan(before, brokers, security, port, runtime.version)
        # Written before anything is created, so that `down --wipe` can always clean up.
        description.write(home, cluster)
        storage.prepare(home, cluster, runtime, notify)
        notify(f"starting {brokers} broker(s) at {cluster.bootstrap}")
        return _complete(home, cluster)


def stop(home: Path = HOME, *, wipe: bool = False, timeout_s: float = _STOP_S) -> int:
    """Stop all brokers at once; return how many ran."""
    with processes.locked(home):
        cluster = description.read(home)
        stopped = 0 if cluster is None else _stop(home, cluster, timeout_s)
        if wipe:
            storage.wipe(home)
    return stopped


def kill_broker(node_id: int, home: Path = HOME) -> None:
    """End one broker as a crash would; `restart_missing` brings it back."""
    cluster = description.read(home)
    for node in cluster.nodes if cluster else ():
        if node.id == node_id:
            processes.kill(_process(home, node))
            return
    raise InputError(f"{home}: has no broker {node_id}")


def restart_missing(home: Path = HOME) -> Description:
    """Start every broker that is down, with its data, and wait until all answer."""
    with processes.locked(home):
        cluster = description.read(home)
        if cluster is None:
            raise InputError(f"{home}: has no cluster")
        return _complete(home, cluster)


def _process(home: Path, node: Node) -> processes.Process | None:
    return processes.find(node.pid, str(storage.configuration_file(home, node)))


def _complete(home: Path, cluster: Description) -> Description:
    """Start the missing brokers and wait for all; on failure stop the whole cluster."""
    if any(not is_up(home, node) for node in cluster.nodes):
        runtime = provision.runtime()
        nodes = tuple(_start_node(home, node, runtime) for node in cluster.nodes)
        cluster = msgspec.structs.replace(cluster, nodes=nodes)
        description.write(home, cluster)
    # An incomplete cluster is of no use and would hold its ports.
    try:
        _wait(home, cluster)
    except (InputError, KeyboardInterrupt):
        _stop(home, cluster, _STOP_S)
        raise
    return cluster


def _start_node(home: Path, node: Node, runtime: Runtime) -> Node:
    if is_up(home, node):
        return node
    configuration = str(storage.configuration_file(home, node))
    command = [runtime.java, *_SMALL, *runtime.options, "kafka.Kafka", configuration]
    child = processes.spawn(command, storage.log_file(home, node))
    return msgspec.structs.replace(node, pid=child.pid)


def _wait(home: Path, cluster: Description) -> None:
    # kafka-python is slow to import, and most commands don't wait for a broker.
    from services.admin import client  # noqa: PLC0415
    from services.devcluster.connect import options_for  # noqa: PLC0415

    def check() -> None:
        for node in cluster.nodes:
            if not is_up(home, node):
                log = storage.log_file(home, node)
                last = log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
                raise InputError(f"broker {node.id} ended during its start, see {log}: {last}")

    cluster_id = client.wait_until_answering(options_for(home, cluster), _START_S, check)
    # Another Kafka may have taken the port: don't create our topics on it.
    if cluster_id != cluster.cluster_id:
        raise InputError(f"{cluster.bootstrap} is another cluster: {cluster_id}")


def _stop(home: Path, cluster: Description, timeout_s: float) -> int:
    stopped = processes.end_all([_process(home, node) for node in cluster.nodes], timeout_s)
    nodes = tuple(msgspec.structs.replace(node, pid=None) for node in cluster.nodes)
    description.write(home, msgspec.structs.replace(cluster, nodes=nodes))
    return stopped


def _check_same_kind(home: Path, before: Description, brokers: int, security: Security) -> None:
    # Brokers and users are recorded in the data's metadata, so neither can change later.
    if (len(before.nodes), before.security) != (brokers, security):
        raise InputError(
            f"{home} has a cluster with {len(before.nodes)} broker(s), {before.security}; "
            "remove it first: hirl kafka down --wipe"
        )


def _check_same_port(before: Description, port: int | None) -> None:
    if port not in {None, before.nodes[0].port}:
        raise InputError(
            f"Kafka runs at {before.bootstrap}; to move it, stop it first: hirl kafka down"
        )


def _plan(
    before: Description | None, brokers: int, security: Security, port: int | None, version: str
) -> Description:
    """The cluster to start: on its previous ports where they are free, so that clients find it."""
    # Ports of a stopped cluster may be taken meanwhile; its data and id stay on new ones.
    if before is not None and port is None and _ports_free(before.nodes):
        return msgspec.structs.replace(before, version=version)
    nodes = description.new_nodes(brokers, security, port, processes.free_ports(3 * brokers))
    if port is not None and not _ports_free(nodes):
        raise InputError(f"--port: {port} is taken by another process, choose another")
    return Description(
        bootstrap=description.bootstrap_of(nodes),
        version=version,
        cluster_id=storage.new_cluster_id() if before is None else before.cluster_id,
        security=security,
        nodes=nodes,
    )


def _ports_free(nodes: tuple[Node, ...]) -> bool:
    ports = {port for node in nodes for port in (node.port, node.controller_port, node.broker_port)}
    return all(processes.is_free(port) for port in ports)

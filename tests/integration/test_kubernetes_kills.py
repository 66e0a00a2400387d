"""Writers and the API server are killed under way: no change is lost, doubled, or made elsewhere.

The journal is the API server's own: its audit log, and the generation that it counts up with each
change of a spec. `make lab` plays the long form.
"""

import logging
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from services._kit.kubernetes.sizes import Entry, key_of
from services.lab import controlplane
from services.lab.controlplane import API_SERVER, Lab
from tests.integration.kubernetes_writer import STEP, closed
from tests.integration.lab_helpers import ROOT, Cluster
from tests.kubernetes_helpers import autoscaler, deployment, running_loop

log = logging.getLogger(__name__)

_CHANGES: Final = int(os.environ.get("HIRL_LAB_CHANGES", "60"))
_APPS: Final = 20
_UNOWNED: Final = ("rival", "foreign")
_DOMAIN: Final = "killed"
_MADE: Final = {"applied", "repeat"}
_LONGEST_S: Final = 1200.0


class Kills(NamedTuple):
    """How often something was killed."""

    writers: int
    servers: int


def play(cluster: Cluster, folder: Path, ticks: int, rng: random.Random, *more: str) -> Kills:
    """Run writers until all ticks are closed, and kill them and the server meanwhile."""
    script = ROOT / "tests" / "integration" / "kubernetes_writer.py"
    domain = cluster.namespace
    command = [str(script), str(cluster.lab.kubeconfig), str(folder), domain, str(ticks), *more]
    kills, deadline = Kills(0, 0), time.monotonic() + _LONGEST_S
    while len(closed(folder)) < ticks:
        assert time.monotonic() < deadline, f"{len(closed(folder))} of {ticks} ticks"
        writer = subprocess.Popen(
            [sys.executable, *command], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        try:
            kills = _disturb(cluster, folder, writer, kills, rng)
        finally:
            writer.kill()
            writer.wait()
    return kills


def _disturb(
    cluster: Cluster,
    folder: Path,
    writer: "subprocess.Popen[bytes]",
    kills: Kills,
    rng: random.Random,
) -> Kills:
    """Let a tick begin; then kill the writer, or the server under the writer's hands."""
    began = len(closed(folder))
    while writer.poll() is None and len(closed(folder)) == began:
        if (folder / "pending").exists() and rng.random() < 0.3:
            break
        time.sleep(0.05)
    if writer.poll() is not None:
        return kills
    time.sleep(rng.uniform(0.0, 0.4))
    if rng.random() < 0.25:
        controlplane.kill(cluster.lab, API_SERVER)
        cluster.lab = controlplane.restart(Path(cluster.lab.home))
        time.sleep(rng.uniform(0.0, 2.0))
        kills = kills._replace(servers=kills.servers + 1)
    writer.kill()
    return kills._replace(writers=kills.writers + 1)


@pytest.fixture
def own_lab(lab: Lab, tmp_path: Path) -> Lab:
    """The shared lab, once it is whole again."""
    assert tmp_path.is_dir()
    return controlplane.restart(Path(lab.home))


def test_no_change_is_lost_or_doubled_or_made_elsewhere(own_lab: Lab, tmp_path: Path) -> None:
    ticks = max(2, _CHANGES // _APPS)
    with running_loop() as run:
        cluster = Cluster(own_lab, run, "killed")
        owned = [f"app-{number}" for number in range(_APPS)]
        for name in owned:
            cluster.create(deployment(name, 1, domain=_DOMAIN))
        cluster.create(deployment("foreign", 1, domain=_DOMAIN, managed=False))
        cluster.create(deployment("rival", 1, domain=_DOMAIN))
        cluster.create(autoscaler("rival", "rival"))
        kills = play(cluster, tmp_path, ticks, random.Random(7))
        cluster.lab = controlplane.restart(Path(own_lab.home))

        journal = closed(tmp_path)
        answered = Counter(
            app.rpartition("/")[2]
            for line in journal
            for app, answer in line.answers.items()
            if answer in _MADE
        )
        repeats = sum(list(line.answers.values()).count("repeat") for line in journal)
        stored = {name: cluster.changes(name) for name in (*owned, *_UNOWNED)}
        records = [
            one
            for one in cluster.audit()
            if one.object_ref.get("subresource") == "scale" and "hirl:" in one.request_uri
        ]
        key = [(one.audit_id, one.object_ref["name"]) for one in records]
        made = Counter(
            pair
            for pair, one in zip(key, records, strict=True)
            if one.stage == "ResponseComplete" and one.response_status.get("code") == 200
        )
        received = {
            pair for pair, one in zip(key, records, strict=True) if one.stage == "RequestReceived"
        }
        cluster.close()

    assert [line.tick for line in journal] == list(range(ticks))
    assert sum(answered.values()) == ticks * _APPS
    # Lost: answered as made, and not stored. Doubled: stored more often than answered.
    assert {name: stored[name] for name in owned} == dict.fromkeys(owned, ticks)
    assert all(answered[name] == stored[name] for name in owned)
    assert [stored[name] for name in _UNOWNED] == [0, 0]
    assert max(made.values()) == 1
    assert not {name for _, name in made} & set(_UNOWNED)
    # A server that dies after it has stored a write logs no answer; that it came is in the log.
    silent = {(f"{_DOMAIN}/{t}/1/heuristic/2", n) for t in range(ticks) for n in owned} - set(made)
    assert silent <= received
    assert kills.writers > 0
    log.info(
        "%d changes, %d writers and %d API servers killed, %d found made by an earlier request: %d"
        " answered in the audit log, %d without an answer in it, 0 lost, 0 doubled, 0 unowned",
        ticks * _APPS, kills.writers, kills.servers, repeats, len(made), len(silent),
    )  # fmt: skip


def _pod(app: str) -> dict[str, Any]:
    owner = {
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{app}-7f9c", "uid": "u",
        "controller": True,
    }  # fmt: skip
    (container,) = deployment(app)["spec"]["template"]["spec"]["containers"]
    labels = {"app": app, "pod-template-hash": "7f9c"}
    meta = {"name": f"{app}-7f9c-1", "labels": labels, "ownerReferences": [owner]}
    return {"metadata": meta, "spec": {"containers": [container]}}


def test_no_resize_is_lost_or_doubled_and_running_pods_end_with_the_last_size(
    own_lab: Lab, tmp_path: Path
) -> None:
    ticks = max(2, _CHANGES // _APPS)
    with running_loop() as run:
        cluster = Cluster(own_lab, run, "resized")
        apps, place = [f"app-{number}" for number in range(_APPS)], "/api/v1/namespaces/resized"
        cluster.post(f"{place}/configmaps", {"metadata": {"name": "sizes"}})
        for name in apps:
            cluster.create(deployment(name, 1, domain="resized"))
            cluster.post(f"{place}/pods", _pod(name))
        kills = play(cluster, tmp_path, ticks, random.Random(11), "resized/sizes")
        cluster.lab = controlplane.restart(Path(own_lab.home))
        answers = [answer for line in closed(tmp_path) for answer in line.answers.values()]
        stored = run(cluster.api.get(f"{place}/configmaps/sizes", dict[str, Any]))["data"]
        pods = run(cluster.api.get(f"{place}/pods", dict[str, Any]))["items"]
        made = Counter(
            one.audit_id
            for one in cluster.audit()
            if one.object_ref["resource"] == "configmaps"
            and one.stage == "ResponseComplete"
            and one.verb == "patch"
            and one.response_status.get("code") == 200
            and "dryRun" not in one.request_uri
        )
        cluster.close()

    assert Counter(answers)["applied"] + Counter(answers)["repeat"] == ticks * _APPS
    last = 250 + ticks * STEP
    found = {name: Entry.parse(stored[key_of(f"resized/{name}")]) for name in apps}
    assert {one.cpu for one in found.values() if one is not None} == {last}
    assert None not in found.values()
    # All changes of a tick have its decision: one write per app, and none twice.
    assert len(made) == ticks
    assert max(made.values()) <= _APPS
    requests = [pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] for pod in pods]
    assert requests == [f"{last}m"] * _APPS
    assert kills.writers > 0
    log.info(
        "%d resizes, %d writers and %d API servers killed, %d found made by an earlier request, "
        "%d answered in the audit log",
        ticks * _APPS, kills.writers, kills.servers, Counter(answers)["repeat"],
        sum(made.values()),
    )  # fmt: skip

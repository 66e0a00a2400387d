"""A process that raises every app of a domain in each tick, and can be killed at any time.

It keeps to the order of the engine: a write is saved before it is requested, and requested again
until it is answered, by the next process too.

    python kubernetes_writer.py KUBECONFIG FOLDER DOMAIN TICKS [SIZES]

It raises replicas by one, or with the ConfigMap SIZES the CPU request by `STEP`.
"""

import asyncio
import sys
from pathlib import Path

import msgspec

from services._kit.kubernetes.client import KubernetesApi
from services._kit.kubernetes.credentials import access_of
from services.actuator.kubernetes import KubernetesTarget
from services.actuator.target import Change, Numbers, Read, Reading, Write, Written

STEP = 10
"""Millicores per tick."""
_TIMEOUT_S = 1.0


class Closed(msgspec.Struct, frozen=True):
    """A line of the journal: what a tick came to."""

    tick: int
    answers: dict[str, str]


def closed(folder: Path) -> list[Closed]:
    file = folder / "journal"
    lines = file.read_bytes().splitlines() if file.exists() else []
    return [msgspec.json.decode(line, type=Closed) for line in lines]


async def work(kubeconfig: str, folder: Path, domain: str, ticks: int, sizes: str = "") -> None:
    # Few at a time, so that a kill finds some of a tick made and others not.
    api = KubernetesApi(access_of(kubeconfig), _TIMEOUT_S, 30.0)
    target = KubernetesTarget(api, _TIMEOUT_S, 5.0, 3, sizes)
    while len(closed(folder)) < ticks:
        write = await _pending(target, folder, domain, (0, STEP) if sizes else (1, 0))
        found = await target.carry_out(write)
        if isinstance(found, Written) and found.answered:
            line = msgspec.json.encode(Closed(write.tick, dict(found.answers)))
            with (folder / "journal").open("ab") as journal:
                journal.write(line + b"\n")
    await target.close()


async def _pending(
    target: KubernetesTarget, folder: Path, domain: str, more: tuple[int, int]
) -> Write:
    file, tick = folder / "pending", len(closed(folder))
    if file.exists():
        saved = msgspec.json.decode(file.read_bytes(), type=Write)
        if saved.tick == tick:
            return saved
    while True:
        found = await target.carry_out(Read(domain=domain, tick=tick))
        if isinstance(found, Reading) and found.apps:
            break
    changes = [
        Change(
            app=app,
            replicas=now.replicas + more[0],
            cpu_request=now.cpu_request + more[1],
            memory_request=now.memory_request,
            before=Numbers(now.replicas, now.cpu_request, now.memory_request),
            decision_id=f"{domain}/{tick}/1/heuristic/2",
        )
        for app, now in found.apps.items()
    ]
    write = Write(domain=domain, tick=tick, changes=changes)
    draft = folder / "draft"
    draft.write_bytes(msgspec.json.encode(write))
    draft.rename(file)
    return write


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), *sys.argv[5:]))

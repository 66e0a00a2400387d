"""Sizes that pods have instead of those in their templates: entries of one ConfigMap. No IO.

An admission policy gives them to new pods, so it reads the same text: the container, its requests
in the template, the requests and limits that it gets (`-`: no limit), and the decision. An entry
counts only while the template has the requests that it was made for: the owner's next release wins.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any, Final, Self

import msgspec

from services._kit.kubernetes.objects import Container, ObjectMeta, PodSpec
from services._kit.kubernetes.quantities import amount

WRITER: Final = "hirl-actuator"
"""Field manager of the entries; the decision is in the entry."""
_ABSENT: Final = "-"
_PARTS: Final = 8
_LONGEST_KEY: Final = 253
_ROUNDING: Final = 0.05
"""Share by which a size may differ from the one that was asked for: runtimes round CPU."""


class ConfigMap(msgspec.Struct, frozen=True):
    """The entries, by `key_of`."""

    metadata: ObjectMeta
    data: Mapping[str, str] = msgspec.field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """The size of one workload's pods."""

    container: str
    was: tuple[str, str]
    """CPU and memory that the template requests, as it is written there."""
    cpu: int
    """Millicores; likewise MiB."""
    memory: int
    limits: tuple[str, str]
    """Of CPU and memory; `-`: none."""
    decision: str

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """An entry; None if it is none of ours."""
        parts = text.split(" ", _PARTS - 1)
        if len(parts) < _PARTS or not (parts[3].endswith("m") and parts[4].endswith("Mi")):
            return None
        cpu, memory = parts[3].removesuffix("m"), parts[4].removesuffix("Mi")
        if not (cpu.isdecimal() and memory.isdecimal()):
            return None
        was, limits = (parts[1], parts[2]), (parts[5], parts[6])
        return cls(parts[0], was, int(cpu), int(memory), limits, parts[7])

    def __str__(self) -> str:
        size = f"{self.cpu}m {self.memory}Mi"
        return " ".join([self.container, *self.was, size, *self.limits, self.decision])

    @property
    def size(self) -> tuple[int, int]:
        """Millicores and MiB."""
        return self.cpu, self.memory

    def is_of(self, container: Container | None) -> bool:
        """Whether a template still has the requests that this was made for."""
        if container is None:
            return False
        return (self.container, self.was) == (container.name, _requests(container))

    @property
    def resources(self) -> dict[str, Any]:
        """Of the container in a pod."""
        named = {
            name: limit
            for name, limit in zip(("cpu", "memory"), self.limits, strict=True)
            if limit != _ABSENT
        }
        requests = {"cpu": f"{self.cpu}m", "memory": f"{self.memory}Mi"}
        return {"requests": requests, "limits": named} if named else {"requests": requests}


def size_now(entry: Entry, sizes: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """Millicores and MiB of a workload's pods: the mean of what they have.

    A kubelet may defer a resize. If the new size counted nevertheless, the app's use would look
    lower than it is, and it would lose pods.
    """
    wanted = entry.size
    found = [wanted if _is_close(one, wanted) else one for one in sizes] or [wanted]
    cpu, memory = (round(sum(one[i] for one in found) / len(found)) for i in (0, 1))
    return cpu, memory


def _is_close(size: tuple[int, int], wanted: tuple[int, int]) -> bool:
    pairs = zip(size, wanted, strict=True)
    return all(abs(now - asked) <= _ROUNDING * asked for now, asked in pairs)


def path_of(place: str) -> str:
    """Of the ConfigMap that a setting names as namespace/name; empty if it names none."""
    namespace, _, name = place.partition("/")
    return f"/api/v1/namespaces/{namespace}/configmaps/{name}" if place else ""


def key_of(app: str) -> str:
    """An app's key; names of Kubernetes have no underscore, so no two apps share one."""
    return app.replace("/", "_")


def resizable(app: str, spec: PodSpec) -> Container | None:
    """The container that makes up a pod's size; None if there is no such one."""
    if len(spec.containers) != 1 or len(key_of(app)) > _LONGEST_KEY:
        return None
    (container,) = spec.containers
    size = container.resources.size
    # A request of 0 is one as well, and no limit has a ratio to it.
    return container if min(size) > 0 and size == spec.size else None


def entry_of(container: Container, cpu: int, memory: int, decision: str) -> Entry:
    """A new size; limits keep their ratio to the requests, so that pods keep their class."""
    was = _requests(container)
    limits = container.resources.limits
    scaled = (
        _scaled(limits, "cpu", Fraction(cpu, 1000) / Fraction(amount(was[0])), 1000, "m"),
        _scaled(limits, "memory", memory * 2**20 / Fraction(amount(was[1])), 1, ""),
    )
    return Entry(container.name, was, cpu, memory, scaled, decision)


def _scaled(
    limits: Mapping[str, str | int | float], name: str, ratio: Fraction, unit: int, suffix: str
) -> str:
    if name not in limits:
        return _ABSENT
    # Rounded up: a limit below the request would be refused.
    return f"{ceil(Fraction(amount(str(limits[name]))) * ratio * unit)}{suffix}"


def _requests(container: Container) -> tuple[str, str]:
    found = container.resources.requests
    return str(found.get("cpu", "")), str(found.get("memory", ""))

"""Hands adopted workloads back to their owners, with the replicas and requests that they had.

It runs as the operator, by kubectl: to remove an annotation takes a right to patch workloads, which
no service of ours should have.
"""

import json
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from models.inputs.errors import InputError
from services._kit.http import MALFORMED
from services._kit.kubernetes.adoption import (
    DOMAIN,
    KINDS,
    MANAGED,
    MANAGER,
    REPLICAS_BEFORE,
    app_name,
)
from services._kit.kubernetes.objects import ObjectMeta, WorkloadObject
from services._kit.kubernetes.sizes import key_of
from services.actuator.workloads import replicas_manager

_SIZES: Final = "hirl-sizes"
"""The ConfigMap of the chart with sizes for new pods."""
_AT_A_TIME: Final = 8
_PLURALS: Final = {kind: plural for plural, kind in KINDS.items()}
R = TypeVar("R")
_ATTEMPTS: Final = 5
"""A workload that changes in between is read again."""


class Typed(WorkloadObject, frozen=True, kw_only=True):
    """A workload that says what it is."""

    kind: str


class _List(msgspec.Struct, frozen=True):
    items: list[Typed]


class Release(NamedTuple):
    """What is done with one workload."""

    kind: str
    namespace: str
    name: str
    replicas: int
    """At present."""
    restored: int | None
    """None: the present number stays."""
    reason: str
    patch: dict[str, Any]
    is_done: bool = True


class Kubectl(NamedTuple):
    """kubectl with the operator's credentials."""

    options: Sequence[str] = ()
    """Such as --context."""

    def __call__(self, *words: str) -> str:
        """Its output; raises InputError with its words."""
        program = shutil.which("kubectl")
        if program is None:
            raise InputError("kubectl is needed and not installed")
        command = [program, *self.options, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode != 0:
            raise InputError(f"kubectl: {done.stderr.strip()}")
        return done.stdout


def adopted(kubectl: Kubectl, namespace: str = "") -> list[Typed]:
    """Workloads with our annotation."""
    where = ["--namespace", namespace] if namespace else ["--all-namespaces"]
    found = _read(kubectl, _List, "deployments,statefulsets", *where, "--selector", DOMAIN)
    return [one for one in found.items if one.metadata.annotations.get(MANAGED) == "true"]


def release_of(found: Typed, *, keep_replicas: bool = False) -> Release:
    """What hands a workload back. Only a number that we set is replaced."""
    meta, present = found.metadata, found.spec.replicas
    before, reason = _before(meta)
    if keep_replicas:
        before, reason = None, "as asked"
    # Whoever changes it in between makes the patch fail.
    ours: dict[str, Any] = {MANAGED: None, REPLICAS_BEFORE: None}
    patch: dict[str, Any] = {
        "metadata": {"resourceVersion": meta.resource_version, "annotations": ours}
    }
    if before is not None:
        patch["spec"] = {"replicas": before}
    return Release(found.kind, meta.namespace, meta.name, present, before, reason, patch)


def _before(meta: ObjectMeta) -> tuple[int | None, str]:
    """Replicas to restore, or why none are."""
    manager, _ = replicas_manager(meta.managed_fields)
    if not manager.startswith(MANAGER):
        return None, f"set by {manager or 'nobody'}, not by us"
    noted = meta.annotations.get(REPLICAS_BEFORE, "")
    if not (noted.isascii() and noted.isdigit()):
        return None, f"no {REPLICAS_BEFORE}: it was adopted before the policy that notes it"
    if int(noted) == 0:
        # It was started since: nobody wants it stopped again by an old number.
        return None, "was stopped when it was adopted"
    return int(noted), "as before its adoption"


def hand_back(
    kubectl: Kubectl, found: Sequence[Typed], *, keep_replicas: bool, dry_run: bool
) -> list[Release]:
    """Hand all of them back; with `dry_run` the API server checks it and stores nothing."""
    work = partial(_hand_back, kubectl, keep_replicas=keep_replicas, dry_run=dry_run)
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        done = list(pool.map(work, found))
    ours = [one for one, end in zip(found, done, strict=True) if end.is_done]
    _remove_sizes(kubectl, ours, ["--dry-run=server"] if dry_run else [])
    return done


def _remove_sizes(kubectl: Kubectl, found: Sequence[Typed], dry: Sequence[str]) -> None:
    """New pods have the requests of their template again."""
    keys = {
        key_of(app_name(_PLURALS[o.kind], o.metadata.namespace, o.metadata.name)) for o in found
    }
    selected = f"--field-selector=metadata.name={_SIZES}"
    text = kubectl("get", "configmaps", "--all-namespaces", selected, "--output=json")
    for one in json.loads(text)["items"]:
        if ours := keys & one.get("data", {}).keys():
            patch = json.dumps({"data": dict.fromkeys(sorted(ours))})
            place = ["--namespace", one["metadata"]["namespace"], "--type=merge", "--patch", patch]
            kubectl("patch", "configmap", _SIZES, *place, *dry)


def _hand_back(kubectl: Kubectl, found: Typed, *, keep_replicas: bool, dry_run: bool) -> Release:
    dry = ["--dry-run=server"] if dry_run else []
    for attempt in range(_ATTEMPTS):
        one = release_of(found, keep_replicas=keep_replicas)
        place = [f"{one.kind.lower()}/{one.name}", "--namespace", one.namespace]
        words = ["--type=merge", "--field-manager=hirl-release", "--patch", json.dumps(one.patch)]
        try:
            kubectl("patch", *place, *words, *dry)
        except InputError as error:
            if "Conflict" not in str(error) or attempt == _ATTEMPTS - 1:
                return _failed(one, error)
        else:
            return one
        try:
            found = _read(kubectl, Typed, *place)
        except InputError as error:
            return _failed(one, error)
    raise AssertionError("the last attempt returns")


def _failed(one: Release, error: InputError) -> Release:
    return one._replace(restored=None, is_done=False, reason=f"failed: {error}")


def _read(kubectl: Kubectl, form: type[R], *what: str) -> R:
    text = kubectl("get", *what, "--show-managed-fields", "--output=json")
    try:
        return msgspec.json.decode(text, type=form)
    except MALFORMED as error:
        raise InputError(f"kubectl: unexpected output: {error}") from None

"""What handing a workload back does to it."""

import json
from typing import Any

import pytest
from msgspec import structs

from models.inputs.errors import InputError
from services._kit.kubernetes.adoption import MANAGED, REPLICAS_BEFORE
from services._kit.kubernetes.objects import (
    FieldsV1,
    ManagedFields,
    ObjectMeta,
    WorkloadSpec,
)
from services.admin.release import Typed, hand_back, release_of

OURS = "hirl:payments/7/3/heuristic/2"


def workload(manager: str, noted: str | None) -> Typed:
    fields = FieldsV1(spec={"f:replicas": {}})
    annotations = {MANAGED: "true"} | ({} if noted is None else {REPLICAS_BEFORE: noted})
    meta = ObjectMeta(
        name="web", namespace="shop", resource_version="41", annotations=annotations,
        managed_fields=[ManagedFields(manager=manager, subresource="scale", fields_v1=fields)],
    )  # fmt: skip
    return Typed(kind="Deployment", metadata=meta, spec=WorkloadSpec(replicas=7))


@pytest.mark.parametrize(
    ("manager", "noted", "keep", "restored"),
    [
        (OURS, "4", False, 4),
        (OURS, "4", True, None),
        (OURS, "0", False, None),
        (OURS, None, False, None),
        (OURS, "many", False, None),
        (OURS, "-4", False, None),
        ("kubectl", "4", False, None),
        ("kube-controller-manager", "4", False, None),
    ],
)
def test_only_a_number_that_we_set_is_replaced_by_the_noted_one(
    manager: str, noted: str | None, keep: bool, restored: int | None
) -> None:
    found = release_of(workload(manager, noted), keep_replicas=keep)
    assert found.restored == restored
    assert found.patch.get("spec") == (None if restored is None else {"replicas": restored})
    assert found.reason


def test_it_is_handed_back_whatever_becomes_of_the_replicas_unless_it_changes_meanwhile() -> None:
    ours: dict[str, Any] = {MANAGED: None, REPLICAS_BEFORE: None}
    for manager in (OURS, "kubectl"):
        patch = release_of(workload(manager, None)).patch
        assert patch["metadata"] == {"resourceVersion": "41", "annotations": ours}


class Played:
    """kubectl, with a conflict for the first patch of every workload."""

    def __init__(self, *gone: str) -> None:
        self.gone, self.patched = gone, list[str]()
        self.refused: set[str] = set()

    def __call__(self, *words: str) -> str:
        verb, what = words[:2]
        if verb == "get" and what == "configmaps":
            data = {"shop_web": "entry", "shop_old": "entry"}
            meta = {"name": "hirl-sizes", "namespace": "hirl"}
            return json.dumps({"items": [{"metadata": meta, "data": data}]})
        if what == "configmap":
            self.patched.append(words[-1])
            return ""
        if what.partition("/")[2] in self.gone:
            raise InputError("kubectl: Error from server (NotFound)")
        if verb == "get":
            return json.dumps(AGAIN)
        if what not in self.refused:
            self.refused.add(what)
            raise InputError("kubectl: Error from server (Conflict): it was changed")
        self.patched.append(what)
        return ""


AGAIN: dict[str, Any] = {
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop", "resourceVersion": "42"},
    "spec": {
        "replicas": 7,
        # Such as every Deployment with a file of a ConfigMap has it.
        "template": {"spec": {"volumes": [{"configMap": {"items": [{"key": "a", "path": "a"}]}}]}},
    },
}


def test_a_workload_that_cannot_be_handed_back_stops_no_other_one() -> None:
    web = workload(OURS, "4")
    old = structs.replace(web, metadata=structs.replace(web.metadata, name="old"))
    kubectl: Any = Played("old")
    done = hand_back(kubectl, [old, web], keep_replicas=False, dry_run=False)
    assert [one.is_done for one in done] == [False, True]
    # And it keeps its size: it is still ours.
    assert kubectl.patched == ["deployment/web", '{"data": {"shop_web": null}}']

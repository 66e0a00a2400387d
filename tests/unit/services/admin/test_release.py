"""What handing a workload back does to it."""

from typing import Any

import pytest

from services._kit.kubernetes.adoption import MANAGED, REPLICAS_BEFORE
from services._kit.kubernetes.objects import (
    FieldsV1,
    ManagedFields,
    ObjectMeta,
    WorkloadSpec,
)
from services.admin.release import Typed, release_of

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

"""Quantities mean what they mean to Kubernetes, and round against us."""

import pytest

from services._kit.kubernetes.objects import PodSpec, Resources
from services._kit.kubernetes.quantities import mebibytes, millicores


@pytest.mark.parametrize(
    ("text", "expected"),
    [("250m", 250), ("1", 1000), ("1.5", 1500), ("100u", 1), ("1500000n", 2), ("2e0", 2000)],
)
def test_cpu_is_millicores_rounded_up(text: str, expected: int) -> None:
    assert millicores(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("512Mi", 512), ("1Gi", 1024), ("1G", 954), ("1048576", 1), ("1", 1), ("12E6", 12), ("0", 0)],
)
def test_memory_is_mebibytes_rounded_up(text: str, expected: int) -> None:
    assert mebibytes(text) == expected


@pytest.mark.parametrize("text", ["", "m", "1x", "1mm", "one", "NaNm1"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a quantity"):
        millicores(text)


def test_a_pod_asks_for_its_containers_and_sidecars_or_its_largest_init_container() -> None:
    def container(cpu: str, policy: str = "") -> dict[str, object]:
        resources = {"requests": {"cpu": cpu, "memory": "64Mi"}}
        return {"resources": resources, "restartPolicy": policy}

    import msgspec

    document = {
        "containers": [container("250m"), container("1")],
        "initContainers": [container("100m", "Always"), container("900m")],
        "overhead": {"cpu": "50m"},
    }
    assert msgspec.convert(document, PodSpec).size == (1400, 192)
    document["initContainers"] = [container("3")]
    assert msgspec.convert(document, PodSpec).size == (3050, 128)


def test_requests_of_the_whole_pod_win() -> None:
    pod = PodSpec(resources=Resources(requests={"cpu": 2, "memory": "1Gi"}))
    assert pod.size == (2000, 1024)

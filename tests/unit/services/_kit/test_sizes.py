"""Stored sizes: written and read back, and void once the owner's template differs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services._kit.kubernetes.objects import Container, PodSpec, Resources
from services._kit.kubernetes.sizes import Entry, entry_of, key_of, resizable


def container(
    cpu: str = "250m", memory: str = "512Mi", limits: dict[str, str] | None = None
) -> Container:
    requests = {"cpu": cpu, "memory": memory}
    return Container(name="app", resources=Resources(requests=requests, limits=limits or {}))


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.text(min_size=1))
def test_an_entry_is_read_as_it_was_written(cpu: int, memory: int, decision: str) -> None:
    entry = entry_of(container(), cpu, memory, decision)
    assert Entry.parse(str(entry)) == entry


def test_limits_keep_their_ratio_and_are_never_below_the_requests() -> None:
    assert entry_of(container(), 400, 1024, "d").limits == ("-", "-")
    limited = container("300m", "512Mi", {"cpu": "300m", "memory": "1Gi"})
    assert entry_of(limited, 401, 1024, "d").limits == ("401m", str(2 * 2**30))
    uneven = container("3", "1Gi", {"cpu": "4"})
    assert entry_of(uneven, 1, 1024, "d").limits == ("2m", "-")


def test_an_entry_is_of_the_template_that_it_was_made_for() -> None:
    entry = entry_of(container(), 400, 512, "d")
    assert entry.is_of(container())
    assert not entry.is_of(container(cpu="300m"))
    assert not entry.is_of(None)


@pytest.mark.parametrize("text", ["", "app 1", "app 1 2 x 1Mi - - d", "a b c 1m 2G - - d"])
def test_what_is_no_entry_is_none(text: str) -> None:
    assert Entry.parse(text) is None


def test_only_a_single_container_that_requests_both_is_resized() -> None:
    assert resizable("shop/web", PodSpec(containers=[container()])) == container()
    others = (
        PodSpec(containers=[container(), container()]),
        PodSpec(containers=[Container(name="app", resources=Resources(requests={"cpu": "1"}))]),
        # Its start needs more than the container itself.
        PodSpec(containers=[container()], init_containers=[container(cpu="2")]),
        PodSpec(containers=[container(cpu="0", limits={"memory": "1Gi"})]),
        PodSpec(containers=[container(memory="0")]),
    )
    assert [resizable("shop/web", spec) for spec in others] == [None] * len(others)
    assert resizable("shop/" + "n" * 250, PodSpec(containers=[container()])) is None


def test_no_two_apps_share_a_key() -> None:
    assert key_of("shop/statefulsets/web") == "shop_statefulsets_web"
    assert key_of("shop/statefulsets.web") != key_of("shop/statefulsets/web")

"""Pods are resized where more replicas cannot help, within budget and blast radius."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.cluster import rows
from models.cluster.arrays import F32, F64, I32
from models.cluster.plan import Reason
from models.control.change_history import FirstSizes
from models.control.projection import MEBIBYTES, MILLICORES
from models.control.safety import Apps, Wishes, enforce_sizes
from models.control.sizing import enlarge, keep_sizes, wish_sizes
from models.features.table import APP

APPS, DOMAINS = 12, 2
CPU, MEMORY = 1000, 2048
MOST = 20
PLENTY = 1e9
seeds = st.integers(0, 2**32 - 1)


class Sizes(NamedTuple):
    """Sizes and reasons after the rules, and what is left of room and blast radius."""

    cpu: I32
    memory: I32
    reason: I32
    room: F64
    blast: F64
    spent: F64


class Fleet(NamedTuple):
    """Apps of twenty pods of one core, which is all that they may have."""

    features: F32
    need: F32
    replicas: I32
    cpu: I32
    memory: I32

    def set_feature(self, name: str, value: float | F32) -> None:
        self.features[APP.at(name)] = value

    @property
    def status(self) -> I32:
        """[STATUS, A]; all apps are declared."""
        status = np.zeros((rows.STATUS, APPS), np.int32)
        status[rows.ACTIVE], status[rows.DOMAIN] = 1, DOMAIN_OF
        status[rows.REPLICAS] = self.replicas
        status[rows.CPU_REQUEST], status[rows.MEMORY_REQUEST] = self.cpu, self.memory
        return status

    def resized(
        self,
        room: float = PLENTY,
        blast: float = PLENTY,
        allowed: bool = True,
        memory_room: float = PLENTY,
        factor: float | None = None,
    ) -> Sizes:
        result = Sizes(
            np.zeros(APPS, np.int32),
            np.zeros(APPS, np.int32),
            np.zeros(APPS, np.int32),
            np.array([np.full(DOMAINS, room), np.full(DOMAINS, memory_room)]),
            np.full(DOMAINS, blast),
            np.zeros(DOMAINS),
        )
        wishes = Wishes(self.replicas, result.cpu, result.memory, result.reason)
        missing, held = self.features[APP.at("missing")], np.zeros(APPS, np.int8)
        apps = Apps(0, self.status, missing, self.need, held)
        if allowed:
            level, most = np.ones(DOMAINS, np.float32), np.full(APPS, MOST, np.int32)
            first = FirstSizes(
                np.full((1, APPS), CPU, np.int32), np.full((1, APPS), MEMORY, np.int32)
            )
            wish_sizes(apps, self.features, level, most, first, 0, wishes)
            factors = np.full(0 if factor is None else APPS, factor or 1.0, np.float32)
            enlarge(apps, self.features, factors, first, 0, wishes)
        else:
            keep_sizes(apps, wishes)
        enforce_sizes(wishes, apps, result.room, result.blast, result.spent)
        return result


DOMAIN_OF = (np.arange(APPS) % DOMAINS).astype(np.int32)


@pytest.fixture
def fleet() -> Fleet:
    return make()


def make() -> Fleet:
    features = np.zeros((APP.width, APPS), np.float32)
    features[APP.at("active")] = 1.0
    return Fleet(
        features,
        np.full(APPS, 10.0, np.float32),
        np.full(APPS, MOST, np.int32),
        np.full(APPS, CPU, np.int32),
        np.full(APPS, MEMORY, np.int32),
    )


def random_fleet(seed: int) -> Fleet:
    rng = np.random.default_rng(seed)
    some = make()
    some.need[:] = rng.uniform(0, 100, APPS)
    some.cpu[:] = rng.choice([CPU, 1200, 1500, 2000], APPS)
    some.memory[:] = rng.choice([MEMORY, 3000, 4 * MEMORY], APPS)
    some.replicas[:] = rng.integers(0, MOST + 1, APPS)
    some.set_feature("memory_use", rng.uniform(0.5, 1.2, APPS).astype(np.float32))
    some.set_feature("missing", rng.integers(0, 2, APPS).astype(np.float32))
    return some


def test_an_app_within_its_maximum_of_replicas_keeps_its_size(fleet: Fleet) -> None:
    fleet.need[:] = MOST
    fleet.set_feature("memory_use", 0.9)
    sizes = fleet.resized()
    assert (sizes.cpu == CPU).all()
    assert (sizes.memory == MEMORY).all()
    assert (sizes.reason == 0).all()
    assert (sizes.spent == 0).all()


@pytest.mark.parametrize(("need", "cpu"), [(21, 1050), (25, 1250), (30.1, 1550), (100, 2000)])
def test_beyond_the_maximum_of_replicas_pods_become_bigger(
    fleet: Fleet, need: float, cpu: int
) -> None:
    fleet.need[:] = need
    sizes = fleet.resized()
    assert (sizes.cpu == cpu).all()
    assert (sizes.memory == MEMORY).all()
    assert (sizes.reason == Reason.RESIZE).all()


def test_a_bigger_pod_goes_back_to_its_first_size_when_that_is_enough(fleet: Fleet) -> None:
    fleet.cpu[:] = 2000
    fleet.need[:] = 0.74 * MOST / 2
    assert (fleet.resized().cpu == CPU).all()
    fleet.need[:] = 0.76 * MOST / 2
    assert (fleet.resized().cpu == 2000).all()


@pytest.mark.parametrize(("factor", "cpu"), [(1.0, 1000), (1.05, 1000), (1.33, 1350), (9.0, 2000)])
def test_a_policy_makes_pods_larger_than_their_owners_have_them(
    fleet: Fleet, factor: float, cpu: int
) -> None:
    assert (fleet.resized(factor=factor).cpu == cpu).all()
    # On the first size: decided again it is the same, and without it the first size returns.
    fleet.cpu[:], fleet.need[:] = cpu, 1.0
    assert (fleet.resized(factor=factor).cpu == cpu).all()
    assert (fleet.resized(factor=1.0).cpu == CPU).all()


def test_a_policy_never_takes_from_what_replicas_cannot_carry(fleet: Fleet) -> None:
    fleet.need[:] = 30.1
    assert (fleet.resized(factor=1.2).cpu == 1550).all()


def test_without_a_sample_a_policy_changes_no_size(fleet: Fleet) -> None:
    fleet.set_feature("missing", 1.0)
    assert (fleet.resized(factor=2.0).cpu == CPU).all()


def test_no_pod_becomes_smaller_than_at_first(fleet: Fleet) -> None:
    fleet.need[:] = 0.0
    assert (fleet.resized().cpu == CPU).all()


def test_full_memory_grows_in_steps_up_to_a_bound(fleet: Fleet) -> None:
    fleet.set_feature("memory_use", 0.95)
    steps = []
    for _ in range(9):
        fleet.memory[:] = fleet.resized().memory
        steps.append(int(fleet.memory[0]))
    assert steps[0] == 1.25 * MEMORY
    assert steps[-2:] == [4 * MEMORY, 4 * MEMORY]


def test_memory_never_shrinks(fleet: Fleet) -> None:
    fleet.memory[:] = 3 * MEMORY
    fleet.set_feature("memory_use", 0.1)
    assert (fleet.resized().memory == 3 * MEMORY).all()


@pytest.mark.parametrize("need", [0.0, 100.0])
def test_nothing_is_resized_while_data_is_missing(fleet: Fleet, need: float) -> None:
    fleet.cpu[:] = 1500
    fleet.need[:] = need
    fleet.set_feature("memory_use", 1.0)
    fleet.set_feature("missing", 1.0)
    sizes = fleet.resized()
    assert (sizes.cpu == 1500).all()
    assert (sizes.memory == MEMORY).all()


def test_an_app_that_is_not_declared_keeps_its_size(fleet: Fleet) -> None:
    fleet.cpu[:] = 1500
    fleet.need[:] = 0.0
    fleet.set_feature("active", 0.0)
    assert (fleet.resized().cpu == 1500).all()


def test_without_vertical_scaling_nothing_is_resized(fleet: Fleet) -> None:
    fleet.need[:] = 100.0
    fleet.set_feature("memory_use", 1.0)
    sizes = fleet.resized(allowed=False)
    assert (sizes.cpu == CPU).all()
    assert (sizes.memory == MEMORY).all()


@settings(max_examples=60, deadline=None)
@given(seeds, st.floats(0, 60_000))
def test_bigger_pods_stay_within_the_budget(seed: int, room: float) -> None:
    some = random_fleet(seed)
    sizes = some.resized(room=room)
    more = (sizes.cpu - some.cpu) * some.replicas
    grown = np.bincount(DOMAIN_OF, np.maximum(0, more), DOMAINS)
    assert (grown <= room).all()
    assert sizes.room[MILLICORES] == pytest.approx(room - grown)


@settings(max_examples=60, deadline=None)
@given(seeds, st.floats(0, 100_000))
def test_more_memory_stays_within_the_budget(seed: int, room: float) -> None:
    some = random_fleet(seed)
    sizes = some.resized(memory_room=room)
    more = (sizes.memory - some.memory) * some.replicas
    grown = np.bincount(DOMAIN_OF, more, DOMAINS)
    assert (grown <= room).all()
    assert sizes.room[MEBIBYTES] == pytest.approx(room - grown)


@settings(max_examples=60, deadline=None)
@given(seeds, st.floats(0, 60_000))
def test_resizes_stay_within_the_blast_radius(seed: int, blast: float) -> None:
    some = random_fleet(seed)
    sizes = some.resized(blast=blast)
    touched = ((sizes.cpu != some.cpu) | (sizes.memory != some.memory)) * some.replicas * some.cpu
    assert (np.bincount(DOMAIN_OF, touched, DOMAINS) <= blast).all()
    assert (sizes.spent <= blast).all()
    assert sizes.spent + sizes.blast == pytest.approx(blast)


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_resize_is_the_reason_of_changed_sizes_only(seed: int) -> None:
    some = random_fleet(seed)
    sizes = some.resized()
    changed = (sizes.cpu != some.cpu) | (sizes.memory != some.memory)
    assert ((sizes.reason == Reason.RESIZE) == changed).all()


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_sizes_stay_between_the_first_and_their_bound(seed: int) -> None:
    sizes = random_fleet(seed).resized()
    assert (sizes.cpu >= CPU).all()
    assert (sizes.cpu <= 2 * CPU).all()
    assert (sizes.memory >= MEMORY).all()
    assert (sizes.memory <= 4 * MEMORY).all()

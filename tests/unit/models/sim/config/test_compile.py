"""Compiled scenarios: the arrays match the file, for every seed and size."""

import csv
import math
from typing import Any, NamedTuple, get_args

import msgspec
import numpy as np
import pytest

from models.cluster.arrays import F32, I16
from models.cluster.calendar import HISTORY_MINUTES
from models.sim.config.compile import compile_scenario
from models.sim.config.events import Target
from models.sim.config.physics import SimCluster, load_sim_cluster, with_apps
from models.sim.config.scenario import SHIPPED, Scenario, load_scenario, scenario_names
from models.sim.config.script import MOVE, OUTAGE_ZERO, PAYLOAD, TRAFFIC, Overlays
from models.sim.config.targeting import select

CLUSTER = load_sim_cluster()
NAMES = scenario_names()
STEP: dict[str, Any] = {
    "name": "mine",
    "shows": "A doubling of payments.",
    "start": "Tue 10:00",
    "length_minutes": 30,
    "warmup_minutes": 10,
    "events": [
        {
            "kind": "traffic",
            "name": "spike",
            "target": {"domains": ["payments"]},
            "at_minute": 5,
            "factor": 2.0,
            "hold_minutes": 10,
        }
    ],
}
AXES = {
    "kind": "K",
    "start": "E K",
    "ramp": "K",
    "hold": "K",
    "decay": "K",
    "factor": "E K",
    "app_weight": "K A",
    "deploy_tick": "E A",
    "zone": "Z",
    "zone_start": "E Z",
    "zone_end": "E Z",
    "reclaim_tick": "E R",
    "reclaim_share": "R",
    "outage_pipeline": "M",
    "outage_mode": "M",
    "outage_start": "E M",
    "outage_end": "E M",
    "outage_app": "M A",
    "fault_kind": "F",
    "fault_start": "E F",
    "fault_end": "E F",
    "fault_size": "F",
    "fault_app": "F A",
    "inventory_kind": "I",
    "inventory_tick": "E I",
    "inventory_app": "I",
    "inventory_domain": "I",
    "replay_of": "A",
    "replay": "S minutes",
}


class Groups(NamedTuple):
    domain: I16
    tier: I16
    request_mix: F32


def groups_of(cluster: SimCluster) -> Groups:
    """Apps in domain order, their tiers in turn."""
    domain = np.repeat(np.arange(len(cluster.domains)), [d.apps for d in cluster.domain_physics])
    tier = np.concatenate(
        [np.arange(cluster.physics_of(d).apps) % len(d.tiers) for d in cluster.domains]
    )
    mix = np.full((domain.size, 5), 0.2, np.float32)
    return Groups(domain.astype(np.int16), tier.astype(np.int16), mix)


def compiled(scenario: Scenario, seeds: list[int], cluster: SimCluster = CLUSTER) -> Overlays:
    return compile_scenario(scenario, cluster, groups_of(cluster), seeds)


@pytest.mark.parametrize("apps", [1550, 15])
@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_scenario_compiles_for_any_size(name: str, apps: int) -> None:
    cluster = with_apps(CLUSTER, apps)
    scenario = load_scenario(name, cluster)
    assert scenario.name == name
    assert 60 <= scenario.length_minutes <= 300
    overlays = compiled(scenario, [0, 1, 2], cluster)
    sizes = {"E": 3, "A": apps, "K": len(overlays.kind), "Z": len(overlays.zone)}
    sizes |= {"R": len(overlays.reclaim_share), "M": len(overlays.outage_mode)}
    sizes["F"] = len(overlays.fault_kind)
    sizes |= {"I": len(overlays.inventory_kind), "S": len(overlays.replay)}
    sizes["minutes"] = overlays.replay.shape[1]
    for field, letters in AXES.items():
        array = getattr(overlays, field)
        assert array.shape == tuple(sizes[letter] for letter in letters.split()), field
        assert array.flags.c_contiguous, field
        # The annotation is NDArray[scalar type]: ndarray[shape, dtype[scalar type]].
        wanted = get_args(get_args(Overlays.__annotations__[field])[1])[0]
        assert array.dtype == wanted, field
        assert np.isfinite(array).all(), field


@pytest.mark.parametrize("name", NAMES)
def test_an_environment_is_the_same_alone_and_among_64(name: str) -> None:
    scenario = load_scenario(name, CLUSTER)
    many = compiled(scenario, list(range(64)))
    alone = compiled(scenario, [7])
    for field, letters in AXES.items():
        among = getattr(many, field)
        same_seed = among[7:8] if letters.startswith("E") else among
        np.testing.assert_array_equal(same_seed, getattr(alone, field), err_msg=field)


def test_seeds_differ_within_the_jitter_only() -> None:
    overlays = compiled(load_scenario("missed-forecast", CLUSTER), list(range(64)))
    # Six ticks a minute; the warm-up is 20 minutes.
    minutes = overlays.start[:, 0] / 6 - 20
    assert 22 <= minutes.min() < 23
    assert 27 < minutes.max() <= 28
    assert 1.85 <= overlays.factor[:, 0].min() < 1.9
    assert 2.1 < overlays.factor[:, 0].max() <= 2.15


def test_removing_an_event_leaves_the_others_as_they_were() -> None:
    whole = load_scenario("cascade", CLUSTER)
    without = msgspec.structs.replace(whole, events=whole.events[1:])
    seeds = [3, 4]
    np.testing.assert_array_equal(
        compiled(whole, seeds).deploy_tick, compiled(without, seeds).deploy_tick
    )
    # The event removed was the only wave.
    assert len(compiled(without, seeds).kind) == 0


def test_the_sales_hit_the_same_apps() -> None:
    early, punctual = (
        compiled(load_scenario(name, CLUSTER), [0])
        for name in ("flash-sale-20-min-early", "flash-sale-on-time")
    )
    np.testing.assert_array_equal(early.app_weight, punctual.app_weight)
    assert early.app_weight[0].sum() > 150


def test_a_missed_forecast_comes_unannounced() -> None:
    scenario = load_scenario("missed-forecast", CLUSTER)
    assert scenario.calendar == ()
    assert (compiled(scenario, [0]).factor > 1).all()


def test_events_count_from_the_accounted_start() -> None:
    overlays = compiled(msgspec.convert(STEP, Scenario), [0])
    assert overlays.start[0, 0] == (10 + 5) * 6
    assert overlays.hold[0] == 60
    assert overlays.factor[0, 0] == 2


def test_a_step_takes_one_tick_so_that_kernels_may_divide_by_it() -> None:
    overlays = compiled(msgspec.convert(STEP, Scenario), [0])
    assert (overlays.ramp[0], overlays.decay[0]) == (1, 1)


def test_a_regime_goes_from_high_to_low_and_back() -> None:
    overlays = compiled(load_scenario("payload-shift", CLUSTER), [0])
    assert overlays.kind.tolist() == [PAYLOAD] * 3 + [TRAFFIC] * 4
    factors = overlays.factor[0, 3:]
    assert (factors > 1).tolist() == [True, False, True, False]
    ends = overlays.start[0, 3:] + overlays.ramp[3:] + overlays.hold[3:]
    np.testing.assert_allclose(ends[:-1], overlays.start[0, 4:])


def test_a_share_selects_exactly_that_many_apps_and_at_least_one() -> None:
    groups = groups_of(CLUSTER)
    some = select(Target(domains=("payments", "fraud"), share=0.5), "x", CLUSTER, groups)
    # Half of the 330 apps of payments and of the 220 of fraud.
    assert some.sum() == 165 + 110
    assert (groups.domain[some] <= 1).all()
    assert select(Target(domains=("fraud",), share=1e-6), "x", CLUSTER, groups).sum() == 1


def test_different_events_select_different_apps() -> None:
    target = Target(domains=("payments",), share=0.5)
    groups = groups_of(CLUSTER)
    one, other = (select(target, name, CLUSTER, groups) for name in ("one", "other"))
    assert (one != other).any()


def test_a_target_keeps_to_its_tiers() -> None:
    groups = groups_of(CLUSTER)
    chosen = select(Target(domains=("payments",), tiers=("ledger",)), "x", CLUSTER, groups)
    assert set(groups.tier[chosen]) == {3}


def test_a_target_can_list_apps() -> None:
    chosen = select(Target(apps=(3, 1549)), "x", CLUSTER, groups_of(CLUSTER))
    assert np.flatnonzero(chosen).tolist() == [3, 1549]


def test_deploys_are_spread_over_their_window() -> None:
    ticks = compiled(load_scenario("cascade", CLUSTER), [5]).deploy_tick[0]
    # Apps are ordered by domain: payments has the first 330, fraud the next 220.
    fraud = ticks[330:550]
    assert (fraud >= 0).sum() == round(0.6 * 220)
    assert (ticks[:330] == -1).all()
    started = fraud[fraud >= 0]
    assert 50 < started.max() - started.min() <= 60


def test_outages_and_moves_are_compiled() -> None:
    outage = compiled(load_scenario("metrics-outage", CLUSTER), [0])
    assert outage.outage_mode[0] == OUTAGE_ZERO
    assert (outage.outage_end - outage.outage_start == 72).all()
    drift = compiled(load_scenario("slow-drift", CLUSTER), [0])
    moved = drift.inventory_kind == MOVE
    assert set(drift.inventory_domain[moved]) == {CLUSTER.domain_names.index("merchant")}
    # Only a move has a new domain.
    assert set(drift.inventory_domain[~moved]) == {-1}


def test_the_shipped_trace_follows_its_formula() -> None:
    with (SHIPPED / "example-trace.csv").open() as text:
        rows = [int(row["requests"]) for row in csv.DictReader(text)]
    for index, requests in enumerate(rows):
        minute = 5 * index
        day = 1 - 0.45 * math.cos(2 * math.pi * (minute - 180) / 1440)
        value = 1000 * (day + 0.08 * math.sin(2 * math.pi * minute / 90))
        assert requests == round(value * (1.6 if 630 <= minute < 660 else 1))
    assert len(rows) == 288


def test_a_replay_has_history_and_keeps_the_time_of_day() -> None:
    overlays = compiled(load_scenario("trace-replay", CLUSTER), [0])
    series = overlays.replay[0]
    assert len(series) == HISTORY_MINUTES + 80 + 1
    assert series.mean() == pytest.approx(1, abs=1e-4)
    np.testing.assert_array_equal(series[:1440], series[1440:2880])
    # 10:30 is 30 minutes into the accounted part, and the trace jumps there.
    jump = HISTORY_MINUTES + 20 + 30
    assert series[jump] / series[jump - 5] > 1.5
    merchant = groups_of(CLUSTER).domain == CLUSTER.domain_names.index("merchant")
    np.testing.assert_array_equal(overlays.replay_of, np.where(merchant, 0, -1))

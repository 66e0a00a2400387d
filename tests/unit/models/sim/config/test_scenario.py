"""Scenario files: shipped ones load, bad ones are refused, the calendar is apart from events."""

import math
import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
import yaml

from models.cluster.calendar import Announcement
from models.inputs.errors import InputError
from models.sim.config.events import KINDS, Event, Replay, Target, Traffic
from models.sim.config.physics import load_sim_cluster
from models.sim.config.scenario import SHIPPED, Scenario, load_scenario, scenario_names
from models.sim.config.timeline import CalendarEntry, announcements

CLUSTER = load_sim_cluster()
NAMES = (
    "bad-deploy",
    "calm",
    "cascade",
    "correlated-spike",
    "flapping-load",
    "flash-sale-20-min-early",
    "flash-sale-on-time",
    "memory-leak",
    "metrics-outage",
    "missed-forecast",
    "overlapping-campaigns",
    "payload-shift",
    "phantom-forecast",
    "priority-inversion",
    "retry-storm",
    "slow-drift",
    "slow-ramp",
    "spot-reclaim",
    "sunday-night",
    "trace-replay",
    "two-zone-loss",
    "zone-loss",
)
CALM: dict[str, Any] = {
    "name": "mine",
    "shows": "Something.",
    "start": "Tue 10:00",
    "length_minutes": 30,
    "warmup_minutes": 10,
}
SPIKE: dict[str, Any] = {
    "kind": "traffic",
    "name": "spike",
    "target": {"domains": ["payments"]},
    "at_minute": 5,
    "factor": 2.0,
    "hold_minutes": 10,
}


def written(folder: Path, **changes: Any) -> Path:
    file = folder / "mine.yaml"
    file.write_text(yaml.safe_dump(CALM | changes), encoding="utf-8")
    return file


def loaded(folder: Path, **changes: Any) -> Scenario:
    return load_scenario(written(folder, **changes), CLUSTER)


def announced(scenario: Scenario) -> tuple[Announcement, ...]:
    times = scenario.timeline(CLUSTER.tick_seconds)
    return announcements(scenario.calendar, CLUSTER.domain_names, times)


def first_spike_minute(scenario: Scenario) -> float:
    return next(event.at_minute for event in scenario.events if isinstance(event, Traffic))


def test_the_scenarios_are_shipped() -> None:
    assert scenario_names() == NAMES


def test_every_kind_of_event_is_shown_by_a_shipped_scenario() -> None:
    shown = {
        event["kind"]
        for name in NAMES
        for event in yaml.safe_load((SHIPPED / f"{name}.yaml").read_text()).get("events", [])
    }
    assert shown == set(KINDS)
    assert set(KINDS) == {kind.__struct_config__.tag for kind in get_args(Event)}


def test_the_early_sale_comes_20_minutes_before_its_announcement() -> None:
    scenario = load_scenario("flash-sale-20-min-early", CLUSTER)
    assert announced(scenario)[0].start_tick == (20 + 40) * 6
    assert first_spike_minute(scenario) == 40 - 20


def test_the_punctual_sale_comes_when_announced() -> None:
    scenario = load_scenario("flash-sale-on-time", CLUSTER)
    assert first_spike_minute(scenario) == scenario.calendar[0].at_minute


def test_a_phantom_is_announced_and_never_happens() -> None:
    scenario = load_scenario("phantom-forecast", CLUSTER)
    assert announced(scenario)
    assert scenario.events == ()


def test_the_calendar_does_not_change_with_the_events() -> None:
    scenario = load_scenario("flash-sale-20-min-early", CLUSTER)
    assert announced(scenario) == announced(msgspec.structs.replace(scenario, events=()))


def test_tick_zero_is_the_start_of_the_warm_up(tmp_path: Path) -> None:
    times = loaded(tmp_path, start="Mon 00:05").timeline(10)
    assert (times.warmup_ticks, times.total_ticks) == (60, 240)
    assert times.start_minute_of_week == 7 * 24 * 60 - 5
    assert times.tick_at(0) == 60


def test_an_unknown_scenario_gets_the_closest_name_and_all_names() -> None:
    with pytest.raises(InputError, match=r"did you mean cascade\?.*calm.*zone-loss"):
        load_scenario("casacde", CLUSTER)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"start": "Tuesday 10"}, 'start: expected .* such as "Tue 10:00"'),
        ({"length_minutes": 0}, "length_minutes: expected .*>= 1"),
        ({"events": [SPIKE | {"hold_minutes": 1e9}]}, r"events\[0\].hold_minutes: expected"),
        ({"events": [SPIKE | {"at_minute": math.nan}]}, "expected a finite number"),
        ({"lenght": 5}, "lenght"),
        ({"events": [SPIKE | {"kind": "trafic"}]}, r"events\[0\].kind: expected one of traffic"),
        ({"events": [{"name": "x"}]}, r"events\[0\].kind: expected one of traffic"),
        ({"events": [SPIKE, SPIKE]}, r"events\[1\].name: expected distinct"),
        ({"events": [SPIKE | {"at_minute": 30}]}, r"events\[0\].at_minute: expected from -10"),
        ({"events": [SPIKE | {"factor": -1}]}, r"events\[0\].factor"),
        (
            {"events": [SPIKE | {"target": {"domains": ["paymnts"]}}]},
            r"mine.yaml: events\[0\].target.domains: expected one of payments, .*got paymnts",
        ),
        (
            {"events": [SPIKE | {"target": {"domains": ["payments"], "tiers": ["scoring"]}}]},
            r"events\[0\].target.tiers: expected one of edge, .*got scoring",
        ),
        ({"events": [SPIKE | {"target": {}}]}, r"events\[0\].target: expected either"),
        ({"events": [SPIKE | {"target": {"apps": [1550]}}]}, "expected an index below 1550"),
        (
            {
                "events": [
                    {
                        "kind": "zone-loss",
                        "name": "z",
                        "zone": "q",
                        "at_minute": 1,
                        "length_minutes": 1,
                    }
                ]
            },
            r"events\[0\].zone: expected one of a, b, c, got q",
        ),
        (
            {
                "events": [
                    {
                        "kind": "inventory",
                        "name": "i",
                        "change": "move",
                        "at_minute": 1,
                        "target": {"apps": [1]},
                    }
                ]
            },
            "expected to_domain for a move",
        ),
        (
            {
                "calendar": [
                    {
                        "name": "c",
                        "domains": ["x"],
                        "at_minute": 1,
                        "length_minutes": 1,
                        "expected_factor": 2,
                    }
                ]
            },
            r"calendar\[0\].domains: expected one of payments",
        ),
    ],
)
def test_a_bad_scenario_gets_one_line_with_file_path_and_expectation(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        loaded(tmp_path, **changes)
    assert "mine.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unreadable_yaml_is_reported_in_one_line(tmp_path: Path) -> None:
    for text in ("name: [", "", "- a", "events: 3"):
        file = tmp_path / "mine.yaml"
        file.write_text(text)
        with pytest.raises(InputError, match=r"mine\.yaml"):
            load_scenario(file, CLUSTER)
    with pytest.raises(InputError, match="cannot be read"):
        load_scenario(tmp_path / "absent.yaml", CLUSTER)


SECTIONS = {"calendar", "target", "replay", *KINDS}


def described() -> dict[str, set[tuple[str, str]]]:
    """Fields and defaults in the README's tables, by the words in backticks before each table."""
    tables: dict[str, set[tuple[str, str]]] = {}
    heads: list[str] = []
    for line in (SHIPPED / "README.md").read_text().splitlines():
        if line.startswith("|"):
            cells = [cell.strip() for cell in line.split("|")[1:-1]]
            if cells[0].startswith("`"):
                for head in heads:
                    tables.setdefault(head, set()).add((cells[0].strip("`"), cells[2]))
        elif line in ("## The file", "Every event:"):
            heads = [line]
        elif named := [word for word in re.findall(r"`([a-z-]+)`", line) if word in SECTIONS]:
            heads = named
    return tables


def fields(kind: type[msgspec.Struct]) -> set[tuple[str, str]]:
    """Names of a struct's fields with their defaults as the README writes them."""

    def default(value: object) -> str:
        if value is msgspec.NODEFAULT:
            return ""
        if value is None:
            return "none"
        if isinstance(value, str):
            return value
        return "empty" if value == () else f"{value:g}"

    return {(f.name, default(f.default)) for f in msgspec.structs.fields(kind)}


def test_the_readme_lists_every_field_with_its_default() -> None:
    tables = described()
    assert tables["## The file"] == fields(Scenario)
    assert tables["calendar"] == fields(CalendarEntry)
    assert tables["target"] == fields(Target)
    assert tables["replay"] == fields(Replay)
    for kind in get_args(Event):
        name = str(kind.__struct_config__.tag)
        assert tables[name] | tables["Every event:"] == fields(kind) | {("kind", "")}, name

"""A scenario file: what is announced, what happens, and which part of it is accounted.

`load_scenario` checks a file once, also against its cluster. The code behind it relies on that and
does not check again.
"""

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from models.cluster.description import Count, Name
from models.inputs import yamlfile
from models.inputs.errors import did_you_mean, input_error
from models.sim.config.adapted import adapted
from models.sim.config.events import (
    KINDS,
    Event,
    Inventory,
    Replay,
    Target,
    ZoneLoss,
    target_of,
)
from models.sim.config.physics import SimCluster
from models.sim.config.timeline import CalendarEntry, Timeline, minute_of_week, timeline
from models.sim.config.traces import replay_series

SHIPPED = Path(__file__).parents[1] / "scenarios"
DAYS = SHIPPED / "days"
"""Whole days, apart from the others because they take twenty times as long."""


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole file.

    Nodes that exist at the end, booting ones included, are billed up to the end of the last tick
    and not beyond. The warm-up is neither billed nor counted.
    """

    name: Name
    shows: Annotated[str, Meta(min_length=1)]
    """One sentence: what the scenario demonstrates."""
    start: str
    """Weekday and time at which the accounted part begins, such as "Tue 10:00"."""
    length_minutes: Count
    """Length of the accounted part."""
    warmup_minutes: Annotated[int, Meta(ge=0)] = 20
    """Simulated before the accounted part, so that queues, pods and controllers settle."""
    calendar: tuple[CalendarEntry, ...] = ()
    """What was announced."""
    events: tuple[Event, ...] = ()
    """What happens."""
    replay: tuple[Replay, ...] = ()

    def __post_init__(self) -> None:
        # Parsed only to refuse a bad value while the file's name is known.
        minute_of_week(self.start)
        names = [event.name for event in self.events]
        for index, event in enumerate(self.events):
            if names.index(event.name) != index:
                raise ValueError(f"events[{index}].name: expected distinct names")
            if not -self.warmup_minutes <= event.at_minute < self.length_minutes:
                raise ValueError(
                    f"events[{index}].at_minute: expected from {-self.warmup_minutes} (warm-up)"
                    f" to below {self.length_minutes}, got {event.at_minute:g}"
                )

    def timeline(self, tick_seconds: int) -> Timeline:
        """The ticks of this scenario."""
        return timeline(self.start, self.warmup_minutes, self.length_minutes, tick_seconds)


def scenario_names() -> tuple[str, ...]:
    """The names of the shipped scenarios."""
    return tuple(sorted(file.stem for file in SHIPPED.glob("*.yaml")))


def day_names() -> tuple[str, ...]:
    """The names of the shipped whole days."""
    return tuple(sorted(file.stem for file in DAYS.glob("*.yaml")))


def load_scenario(name_or_path: str | Path, cluster: SimCluster) -> Scenario:
    """Read a shipped scenario by name, or a user's by path, and check it against `cluster`."""
    file = _file_of(name_or_path)
    value = yamlfile.read(file)
    _check_kinds(file, value)
    scenario = yamlfile.decode(value, Scenario, file)
    unknown = [
        (path, allowed, got)
        for path, allowed, got in _references(scenario, cluster)
        if got not in allowed
    ]
    # Nobody can change a shipped file for a cluster of their own, so it is adapted.
    if unknown and file.parent in (SHIPPED, DAYS):
        calendar, events, replays = adapted(
            scenario.calendar, scenario.events, scenario.replay, cluster
        )
        scenario = msgspec.structs.replace(
            scenario, calendar=calendar, events=events, replay=replays
        )
    elif unknown:
        path, allowed, got = unknown[0]
        raise input_error(file, path, f"expected one of {_listed(allowed)}, got {got}")
    _check_app_indices(file, scenario, cluster)
    # Trace files are relative to the scenario file, not to the working directory.
    replay = tuple(
        msgspec.structs.replace(entry, file=str(file.parent / entry.file))
        for entry in scenario.replay
    )
    for entry in replay:
        # Compiling reads the trace again. Reading it here reports its errors early.
        replay_series(entry, scenario.timeline(cluster.tick_seconds))
    return msgspec.structs.replace(scenario, replay=replay)


def _file_of(name_or_path: str | Path) -> Path:
    text = str(name_or_path)
    # Anything that looks like a path is one; a plain word is the name of a shipped scenario.
    if isinstance(name_or_path, Path) or "/" in text or text.endswith((".yaml", ".yml")):
        return Path(name_or_path)
    for folder, names in ((SHIPPED, scenario_names()), (DAYS, day_names())):
        if text in names:
            return folder / f"{text}.yaml"
    names = (*scenario_names(), *day_names())
    hint = did_you_mean(text, names)
    raise input_error(
        "scenario", text, f"{hint}expected a path to a YAML file or one of {_listed(names)}"
    )


def _check_kinds(file: Path, value: Any) -> None:
    """List the allowed kinds: the decoder would only report that this one is invalid."""
    events = value.get("events") if isinstance(value, dict) else None
    for index, event in enumerate(events if isinstance(events, list) else ()):
        # Anything but a mapping is left to the decoder, which names its path.
        kind = event.get("kind", "none") if isinstance(event, dict) else KINDS[0]
        if kind not in KINDS:
            raise input_error(
                file, f"events[{index}].kind", f"expected one of {_listed(KINDS)}, got {kind}"
            )


def _references(
    scenario: Scenario, cluster: SimCluster
) -> Iterator[tuple[str, Collection[str], str]]:
    """Every name in the file that must exist in the cluster: path, allowed names, name."""
    domains = cluster.domain_names
    for index, entry in enumerate(scenario.calendar):
        for name in entry.domains:
            yield f"calendar[{index}].domains", domains, name
    for index, event in enumerate(scenario.events):
        if isinstance(event, ZoneLoss):
            yield f"events[{index}].zone", cluster.physics.zones, event.zone
        if isinstance(event, Inventory) and event.to_domain is not None:
            yield f"events[{index}].to_domain", domains, event.to_domain
    for path, target in _targets(scenario):
        for name in target.domains:
            yield f"{path}.domains", domains, name
        tiers = _tiers(cluster, target.domains)
        for name in target.tiers:
            yield f"{path}.tiers", tiers, name


def _targets(scenario: Scenario) -> Iterator[tuple[str, Target]]:
    for index, event in enumerate(scenario.events):
        target = target_of(event)
        if target is not None:
            yield f"events[{index}].target", target
    for index, entry in enumerate(scenario.replay):
        yield f"replay[{index}].target", entry.target


def _tiers(cluster: SimCluster, domains: Collection[str]) -> list[str]:
    return [tier for domain in cluster.domains if domain.name in domains for tier in domain.tiers]


def _check_app_indices(file: Path, scenario: Scenario, cluster: SimCluster) -> None:
    for path, target in _targets(scenario):
        for app in target.apps:
            if app >= cluster.apps:
                raise input_error(
                    file, f"{path}.apps", f"expected an index below {cluster.apps}, got {app}"
                )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)

"""Options of a benchmark, checked before anything starts."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from models.compare.catalogue import ENTRANTS, entrant_of
from models.inputs.errors import InputError
from models.sim.config.physics import SimCluster, load_scaled, load_sim_cluster
from models.sim.config.scenario import Scenario, load_scenario, scenario_names

FRONTIER: Final = tuple(
    f"hpa:{target:g}" for target in (0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8)
)
"""HPA's trade-off between nodes and violations, for comparison only."""
# Not 0 to 9, on which controllers are shaped and tuned.
FULL_SEEDS: Final = "10-19"
QUICK_SEEDS: Final = "10-12"
# A day without an event, the flash sale that `make run` shows, and one in which priorities decide.
QUICK_SCENARIOS: Final = ("calm", "flash-sale-20-min-early", "priority-inversion")
QUICK_APPS: Final = 310
"""A fifth of the example cluster."""
MOST_SEEDS: Final = 1000
# A baseline with a bad target proves nothing, so the calibrated one comes first.
_REFERENCES: Final = ("hpa-calibrated", "hpa")
_SHOWN: Final = "flash-sale-20-min-early"
"""Also the scenario of `make run`."""
# At most 18 digits, which fit into 64 bits.
_SEEDS: Final = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")


class Options(NamedTuple):
    """The options of the command line; None where one was not given."""

    controllers: str | None = None
    scenarios: str | None = None
    seeds: str | None = None
    apps: int | None = None
    against: str | None = None
    frontier: bool | None = None
    quick: bool = False
    cluster: Path | None = None
    physics: Path | None = None


class Request(NamedTuple):
    """The benchmark to run."""

    cluster: SimCluster
    controllers: tuple[str, ...]
    """Compared with each other."""
    frontier: tuple[str, ...]
    """HPA at several targets, run in addition."""
    scenarios: tuple[Scenario, ...]
    seeds: tuple[int, ...]
    reference: str
    reduced: tuple[str, ...]
    """What a quick run leaves out, as printed."""

    @property
    def entrants(self) -> tuple[str, ...]:
        """Names of all controllers that run."""
        return _distinct((*self.controllers, *self.frontier))

    @property
    def shown(self) -> Scenario:
        """The scenario whose timeline is plotted: preferably the early flash sale."""
        by_name = {scenario.name: scenario for scenario in self.scenarios}
        sales = [name for name in by_name if "flash-sale" in name]
        return by_name[_SHOWN if _SHOWN in by_name else (*sales, *by_name)[0]]


def request_of(options: Options) -> Request:
    """Check the options and fill in defaults."""
    seeds = parse_seeds(options.seeds or (QUICK_SEEDS if options.quick else FULL_SEEDS))
    controllers = _names("controllers", options.controllers, tuple(ENTRANTS))
    cluster = _cluster(options)
    default = QUICK_SCENARIOS if options.quick else scenario_names()
    scenarios = _scenarios(_names("scenarios", options.scenarios, default), cluster)
    full = not options.quick and options.controllers is None
    with_frontier = full if options.frontier is None else options.frontier
    reference = _reference(options.against, controllers)
    # Fail on a bad name before anything runs.
    for name in (*controllers, reference):
        entrant_of(name)
    return Request(
        cluster=cluster,
        controllers=_distinct((*controllers, reference)),
        frontier=FRONTIER if with_frontier else (),
        scenarios=scenarios,
        seeds=seeds,
        reference=reference,
        reduced=_reduced(options) if options.quick else (),
    )


def parse_seeds(text: str) -> tuple[int, ...]:
    """Parse `0-9`, `3`, `0,2,5` and mixtures into distinct seeds in ascending order."""
    seeds: set[int] = set()
    for part in text.split(","):
        found = _SEEDS.fullmatch(part.strip())
        if found is None:
            raise InputError(f"seeds: expected a list such as 0-9, 3 or 0,2,5, got {text!r}")
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first:
            raise InputError(f"seeds: {part.strip()}: expected the lower seed first")
        # A typo such as 0-99999 would otherwise run for days.
        if last - first >= MOST_SEEDS:
            raise InputError(f"seeds: {part.strip()}: expected at most {MOST_SEEDS:,} seeds")
        seeds.update(range(first, last + 1))
    return tuple(sorted(seeds))


def controller_names(text: str) -> tuple[str, ...]:
    """Parse distinct names of known controllers, separated by commas."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise InputError(f"controllers: expected at least one name, got {text!r}")
    for name in names:
        entrant_of(name)
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise InputError(f"controllers: {repeated[0]}: expected each controller once")
    return names


def _names(option: str, text: str | None, default: Sequence[str]) -> tuple[str, ...]:
    if text is None:
        return tuple(default)
    names = _distinct(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise InputError(f"{option}: expected at least one name, got {text!r}")
    return names


def _cluster(options: Options) -> SimCluster:
    apps = QUICK_APPS if options.apps is None and options.quick else options.apps
    return load_scaled(options.cluster, apps, options.physics)


def _scenarios(names: Iterable[str], cluster: SimCluster) -> tuple[Scenario, ...]:
    found: dict[str, Scenario] = {}
    for name in names:
        scenario = load_scenario(name, cluster)
        if scenario.name in found:
            raise InputError(f"scenarios: {name}: another scenario is called {scenario.name} too")
        found[scenario.name] = scenario
    return tuple(found.values())


def _reference(against: str | None, controllers: Sequence[str]) -> str:
    if against is not None:
        return against
    return next((name for name in _REFERENCES if name in controllers), controllers[0])


def _reduced(options: Options) -> tuple[str, ...]:
    whole = load_sim_cluster(options.cluster, options.physics)
    left_out = {
        f"seeds {QUICK_SEEDS} instead of {FULL_SEEDS}": options.seeds is None,
        f"{len(QUICK_SCENARIOS)} of {len(scenario_names())} scenarios": options.scenarios is None,
        f"{QUICK_APPS} of {whole.apps:,} apps": options.apps is None,
        "no frontier of HPA's targets": not options.frontier,
    }
    return tuple(words for words, applies in left_out.items() if applies)


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))

"""What a benchmark is asked to run: every option checked before anything starts."""

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from models.compare.catalogue import ENTRANTS, entrant_of
from models.compare.entrants import FRONTIER
from models.inputs.errors import InputError
from models.sim.config.physics import SimCluster, load_scaled, load_sim_cluster
from models.sim.config.scenario import Scenario, load_scenario, scenario_names

FULL_SEEDS: Final = "0-9"
QUICK_SEEDS: Final = "0-2"
QUICK_SCENARIOS: Final = ("calm", "flash-sale-20-min-early", "priority-inversion")
QUICK_APPS: Final = 310
MOST_SEEDS: Final = 1000
_REFERENCES: Final = ("hpa-calibrated", "hpa")
_SHOWN: Final = "flash-sale-20-min-early"
_SEEDS: Final = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")


class Asked(NamedTuple):
    """The options as they were typed; None where one was not given."""

    controllers: str | None = None
    scenarios: str | None = None
    seeds: str | None = None
    apps: int | None = None
    against: str | None = None
    frontier: bool | None = None
    quick: bool = False


class Request(NamedTuple):
    """What will be run."""

    cluster: SimCluster
    controllers: tuple[str, ...]
    """Compared with each other."""
    frontier: tuple[str, ...]
    """HPA's targets, run beside them."""
    scenarios: tuple[Scenario, ...]
    seeds: tuple[int, ...]
    reference: str
    reduced: tuple[str, ...]
    """What a quick run leaves out, in words."""

    @property
    def entrants(self) -> tuple[str, ...]:
        """Everybody who runs."""
        return _distinct((*self.controllers, *self.frontier))

    @property
    def shown(self) -> Scenario:
        """The scenario whose timeline is drawn: a sale that comes early, where there is one."""
        by_name = {scenario.name: scenario for scenario in self.scenarios}
        sales = [name for name in by_name if "flash-sale" in name]
        return by_name[_SHOWN if _SHOWN in by_name else (*sales, *by_name)[0]]


def request_of(asked: Asked) -> Request:
    """Check the options and fill in the rest."""
    seeds = parse_seeds(asked.seeds or (QUICK_SEEDS if asked.quick else FULL_SEEDS))
    controllers = _names("controllers", asked.controllers, tuple(ENTRANTS))
    cluster = _cluster(asked)
    usual = QUICK_SCENARIOS if asked.quick else scenario_names()
    scenarios = _scenarios(_names("scenarios", asked.scenarios, usual), cluster)
    full = not asked.quick and asked.controllers is None
    with_frontier = full if asked.frontier is None else asked.frontier
    reference = _reference(asked.against, controllers)
    for name in (*controllers, reference):
        entrant_of(name)
    return Request(
        cluster=cluster,
        controllers=_distinct((*controllers, reference)),
        frontier=FRONTIER if with_frontier else (),
        scenarios=scenarios,
        seeds=seeds,
        reference=reference,
        reduced=_reduced(asked) if asked.quick else (),
    )


def parse_seeds(text: str) -> tuple[int, ...]:
    """`0-9`, `3`, `0,2,5`, and mixtures of them, as distinct seeds in ascending order."""
    seeds: set[int] = set()
    for part in text.split(","):
        found = _SEEDS.fullmatch(part.strip())
        if found is None:
            raise InputError(f"seeds: expected such as 0-9, 3 or 0,2,5, got {text!r}")
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first:
            raise InputError(f"seeds: {part.strip()}: expected the lower seed first")
        if last - first >= MOST_SEEDS:
            raise InputError(f"seeds: {part.strip()}: expected at most {MOST_SEEDS:,} seeds")
        seeds.update(range(first, last + 1))
    return tuple(sorted(seeds))


def _names(option: str, text: str | None, usual: Sequence[str]) -> tuple[str, ...]:
    if text is None:
        return tuple(usual)
    names = _distinct(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise InputError(f"{option}: expected at least one name, got {text!r}")
    return names


def _cluster(asked: Asked) -> SimCluster:
    apps = QUICK_APPS if asked.apps is None and asked.quick else asked.apps
    return load_scaled(None, apps)


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


def _reduced(asked: Asked) -> tuple[str, ...]:
    left_out = {
        f"seeds {QUICK_SEEDS} instead of {FULL_SEEDS}": asked.seeds is None,
        f"{len(QUICK_SCENARIOS)} of {len(scenario_names())} scenarios": asked.scenarios is None,
        f"{QUICK_APPS} of {load_sim_cluster().apps:,} apps": asked.apps is None,
        "no frontier of HPA's targets": not asked.frontier,
    }
    return tuple(words for words, applies in left_out.items() if applies)


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))

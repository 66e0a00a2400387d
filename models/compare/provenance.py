"""What tuned parameters depend on: the code of a family and the worlds it was tuned in."""

import hashlib
import importlib.util
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from models.compare.families import FAMILIES, Family
from models.compare.run import run
from models.control.tuned import FILE, Tuned, load_tuned
from models.inputs.errors import InputError
from models.jit import code_digest
from models.sim import world
from models.sim.apps import Population
from models.sim.config.compile import compile_scenario
from models.sim.config.physics import (
    Scheduling,
    SimCluster,
    load_sim_cluster,
    with_apps,
    with_scheduling,
)
from models.sim.config.scenario import Scenario, load_scenario, scenario_names
from models.sim.config.script import script_of
from models.sim.population.fitted import FITTED
from models.sim.population.generate import generate
from models.sim.world import world_hash

FOLDER = Path(__file__).with_name("tuning")
"""Scenarios to tune on, one YAML file each."""
SHIPPED: Final = "shipped"
TUNING: Final = "tuning"
SETS: Final = (SHIPPED, TUNING)
"""What can be tuned on: the scenarios of comparisons, whose seeds are others, or those of FOLDER.
No scenario is in both."""
NEVER: Final = "never tuned"


def tuning_scenarios(cluster: SimCluster) -> tuple[Scenario, ...]:
    """The scenarios to tune on, checked against the cluster."""
    return tuple(load_scenario(file, cluster) for file in sorted(FOLDER.glob("*.yaml")))


def scenarios_of(name: str, cluster: SimCluster) -> tuple[Scenario, ...]:
    """One of SETS, checked against the cluster."""
    if name == TUNING:
        return tuning_scenarios(cluster)
    if name == SHIPPED:
        return tuple(load_scenario(one, cluster) for one in scenario_names())
    raise InputError(f"scenarios: expected one of {', '.join(SETS)}, got {name!r}")


def family_code(family: Family) -> str:
    """Hash of the family's controller and forecaster, and of what runs and scores them."""
    modules = [family.factory.__module__, run.__module__]
    if family.forecaster is not None:
        modules.append(family.forecaster.__module__)
    digests = " ".join(controller_digest(module) for module in modules)
    return hashlib.sha256(digests.encode()).hexdigest()[:16]


def controller_digest(module: str) -> str:
    """Hash of a module and of all it imports from here. The world has its own hash."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise InputError(f"{module}: cannot be imported")
    return code_digest(Path(spec.origin))


def hash_of_world(
    cluster: SimCluster, scenario: Scenario, scheduling: Scheduling, population: Population
) -> str:
    """Equal to `World.hash`, without building the world."""
    scheduled = with_scheduling(cluster, scheduling)
    # The hash does not depend on seeds, so any one will do.
    script = script_of(compile_scenario(scenario, scheduled, population.apps, [0]))
    return world_hash(scheduled, scenario, population, script.replay)


def outdated(file: Path = FILE, entrants: Iterable[str] | None = None) -> dict[str, str]:
    """Families whose parameters were tuned for other code or other worlds, with what changed.

    Of all families in the file, or of those of these entrants; then also those that were never
    tuned.
    """
    found, worlds, tuned_families = {}, _Worlds(), load_tuned(file)
    # `heuristic:calendar`, `pid~0.9` and `pid@priority` are of the families before the sign.
    asked = None if entrants is None else {re.split("[:~@]", name)[0] for name in entrants}
    for name, tuned in tuned_families.items():
        if name not in FAMILIES or (asked is not None and name not in asked):
            continue
        family, changed = FAMILIES[name], []
        if tuned.code != family_code(family):
            changed.append("code")
        if tuned.worlds != worlds.of(family, tuned):
            changed.append("worlds")
        if changed:
            found[name] = " and ".join(changed)
    never = (name for name in FAMILIES if asked is not None and name in asked)
    return found | {name: NEVER for name in never if name not in tuned_families}


def notice(found: Mapping[str, str]) -> str:
    """`outdated` in one line; empty if there is nothing to say."""
    never = [name for name, what in found.items() if what == NEVER]
    other = [name for name, what in found.items() if what != NEVER]
    parts = [
        f"{words} {', '.join(names)}"
        for words, names in (("tuned for other code or worlds:", other), ("never tuned:", never))
        if names
    ]
    return "; ".join(parts) + " (hirl calibrate tunes)" if parts else ""


def physics_hash(cluster: SimCluster) -> str:
    """Digest of a simulated cluster and of its physics, whatever is played in it.

    It says whether measurements in other scenarios were made in the same kind of world.
    """
    parts = code_digest(Path(world.__file__)).encode(), FITTED.read_bytes()
    return hashlib.sha256(b"".join((*parts, msgspec.json.encode(cluster)))).hexdigest()[:16]


class _Worlds:
    """Hashes of the worlds to tune in, each computed once: most families share them."""

    def __init__(self) -> None:
        self._clusters: dict[int, tuple[SimCluster, Population]] = {}
        self._hashes: dict[tuple[int, Scheduling, str], dict[str, str]] = {}

    def of(self, family: Family, tuned: Tuned) -> dict[str, str]:
        if tuned.apps not in self._clusters:
            cluster = with_apps(load_sim_cluster(), tuned.apps)
            self._clusters[tuned.apps] = cluster, generate(cluster)
        used = SHIPPED if tuned.worlds.keys() & set(scenario_names()) else TUNING
        key = tuned.apps, family.scheduling, used
        if key not in self._hashes:
            cluster, population = self._clusters[tuned.apps]
            # All of the set: a scenario that came since then was not tuned on.
            self._hashes[key] = {
                scenario.name: hash_of_world(cluster, scenario, family.scheduling, population)
                for scenario in scenarios_of(used, cluster)
            }
        return self._hashes[key]

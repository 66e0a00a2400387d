"""The scenarios to learn in: those to tune on, and more quiet hours.

Seven of the eight tuning scenarios have an event. Learned from alone, they make a policy that keeps
room for an event in every hour of the year, and pays for it. So quiet hours at other times of the
week join them.
"""

from typing import Final

import msgspec

from models.compare.provenance import tuning_scenarios
from models.sim.config.physics import SimCluster
from models.sim.config.scenario import Scenario

_QUIET: Final = ("Mon 09:10", "Wed 13:00", "Sat 20:00", "Sun 03:00")
"""Morning rise, midday, evening and night."""


def training_scenarios(cluster: SimCluster) -> tuple[Scenario, ...]:
    """Eight with events or without, and four quiet ones."""
    tuning = tuning_scenarios(cluster)
    calm = next(scenario for scenario in tuning if not scenario.events)
    quiet = (
        msgspec.structs.replace(calm, name=f"{calm.name}-{start[:3].lower()}", start=start)
        for start in _QUIET
    )
    return (*tuning, *quiet)

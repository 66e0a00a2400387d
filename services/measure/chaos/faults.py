"""Every kind of fault, by name."""

import time
from math import nan
from typing import Final

from services.devcluster.specs import DECIDING
from services.measure.chaos import brokers, floods, lies, processes
from services.measure.chaos.flaky_source import BY_DOMAIN, WHOLE
from services.measure.chaos.flaky_target import BEHAVIOURS, Behaviour
from services.measure.chaos.place import (
    NO_CLAIMS,
    VICTIMS,
    Claims,
    Fault,
    Injection,
    Place,
)
from services.measure.chaos.records import FUZZES

_TARGET_S: Final = 10.0
_FEW_RPS: Final = 1.0
"""A constant forecast far below the traffic of any domain."""


def all_faults(brokers_count: int) -> list[Fault]:
    """Every kind, for a cluster of this many brokers."""
    return [
        *_of_processes(),
        *_of_brokers(brokers_count),
        *(Fault(f"target {name}", _breaking(name)) for name in BEHAVIOURS),
        *_of_metrics(),
        *_of_records(),
    ]


def _of_processes() -> list[Fault]:
    # Collectors form no group: there is nothing to share, and nothing that they read expires.
    return [
        *(Fault(f"kill {name}", processes.killing(name)) for name in VICTIMS),
        *(Fault(f"pause {name}", processes.pausing(name)) for name in VICTIMS),
        *(Fault(f"rebalance {name}", processes.visiting(name)) for name in DECIDING),
        *(Fault(f"clock {name}", processes.jumping([name])) for name in VICTIMS),
        Fault("clock of all", processes.jumping(VICTIMS)),
        *(
            Fault(f"release {name}", processes.downgrading(name), clean_topics=True)
            for name in VICTIMS
        ),
        Fault("release upgraded", processes.upgrading, clean_topics=True),
        Fault("disk full services", processes.filling_disk),
    ]


def _of_brokers(count: int) -> list[Fault]:
    found = [
        Fault("broker killed", brokers.kill_all),
        Fault("broker stopped", brokers.stop_all),
        Fault("disk full broker", brokers.fill_disk),
        *(Fault(f"expired {name}", brokers.expiring(name)) for name in DECIDING),
    ]
    return [*found, Fault("one broker lost", brokers.lose_one)] if count > 1 else found


def _of_metrics() -> list[Fault]:
    return [
        *(Fault(f"{name} metrics", lies.falsifying(name, everywhere=False)) for name in BY_DOMAIN),
        *(
            Fault(f"{name} metrics all", lies.falsifying(name, everywhere=True))
            for name in (*BY_DOMAIN, *WHOLE)
        ),
    ]


def _of_records() -> list[Fault]:
    return [
        *(Fault(f"fuzz {kind}", floods.fuzzing(kind)) for kind in FUZZES),
        Fault("records replayed", floods.replay),
        Fault("records late", floods.send_late),
        Fault("records future", floods.send_future),
        Fault("records misplaced", floods.misplace),
        Fault("records oversized", floods.oversize),
        Fault("forged samples", lies.forge_samples),
        Fault("forged epochs", lies.forge_epochs),
        Fault("forged budgets", lies.misgrant),
        Fault("forged budgets flip", lies.flip),
        Fault("forged requests", lies.buy_quota),
        Fault("constant forecasts", lies.forecasting(_FEW_RPS)),
        Fault("NaN forecasts", lies.forecasting(nan)),
    ]


def _breaking(behaviour: Behaviour) -> Injection:
    def inject(place: Place) -> Claims:
        place.target.behaviour = behaviour
        try:
            time.sleep(_TARGET_S)
        finally:
            place.target.behaviour = "pass"
        return NO_CLAIMS

    return inject

"""Every kind of fault, by name."""

import time
from math import nan
from typing import Final

from services.devcluster.specs import DECIDING
from services.measure.chaos import brokers, false_data, floods, processes
from services.measure.chaos.flaky_source import BY_DOMAIN, WHOLE
from services.measure.chaos.flaky_target import BEHAVIOURS, Behaviour
from services.measure.chaos.records import FUZZES
from services.measure.chaos.subject import (
    NO_CLAIMS,
    SERVICES,
    Claims,
    Fault,
    Injection,
    Subject,
)

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
        *(Fault(f"kill {name}", processes.killing(name)) for name in SERVICES),
        *(Fault(f"pause {name}", processes.pausing(name)) for name in SERVICES),
        *(Fault(f"rebalance {name}", processes.visiting(name)) for name in DECIDING),
        *(Fault(f"clock {name}", processes.jumping([name])) for name in SERVICES),
        Fault("clock of all", processes.jumping(SERVICES)),
        *(
            Fault(f"release {name}", processes.downgrading(name), clean_topics=True)
            for name in SERVICES
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
        *(
            Fault(f"{name} metrics", false_data.falsifying(name, everywhere=False))
            for name in BY_DOMAIN
        ),
        *(
            Fault(f"{name} metrics all", false_data.falsifying(name, everywhere=True))
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
        Fault("forged samples", false_data.forge_samples),
        Fault("forged epochs", false_data.forge_epochs),
        Fault("forged budgets", false_data.grant_all_to_lowest),
        Fault("forged budgets flip", false_data.grant_by_turns),
        Fault("forged requests", false_data.buy_quota),
        Fault("constant forecasts", false_data.forecasting(_FEW_RPS)),
        Fault("NaN forecasts", false_data.forecasting(nan)),
    ]


def _breaking(behaviour: Behaviour) -> Injection:
    def inject(subject: Subject) -> Claims:
        subject.target.behaviour = behaviour
        try:
            time.sleep(_TARGET_S)
        finally:
            subject.target.behaviour = "pass"
        return NO_CLAIMS

    return inject

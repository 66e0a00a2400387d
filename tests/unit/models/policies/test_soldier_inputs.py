"""What the Soldiers' network sees, and which steps it may take."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.cluster import rows
from models.cluster.arrays import F32, I32
from models.cluster.inventory import Inventory, only_domain
from models.control.budget import Directive, no_decision
from models.control.demand import AppSignals
from models.features.table import APP
from models.policies.contract import GROUPS, MEMBERS, NO_STEP, SOLDIER_INPUTS, STEPS, TOP
from models.policies.soldier_inputs import SoldierInputs, soldier_inputs
from tests.unit.models.control.control_helpers import APPS, DOMAINS, INVENTORY, POOLS, Plant

P0 = int(np.flatnonzero(INVENTORY.priority == 0)[0])
LOW = int(INVENTORY.priority.argmax())
NOWHERE = -1


def signals_of(apps: int = APPS, value: float | None = None) -> AppSignals:
    draw = np.random.default_rng(0)
    features = draw.uniform(0.0, 2.0, (1, APP.width, apps)).astype(np.float32)
    features[:, APP.at("missing")] = 0.0
    both = [draw.uniform(1.0, 9.0, (1, apps)).astype(np.float32) for _ in range(2)]
    if value is not None:
        features[:] = value
        both = [np.full((1, apps), value, np.float32) for _ in range(2)]
    return AppSignals(features, *both)


def directive_of(cores: float = 1e6) -> Directive:
    found = no_decision(1, DOMAINS, POOLS).directive
    return found._replace(budget=found.budget._replace(cores=np.full((1, DOMAINS), cores)))


def asked(
    status: I32 | None = None,
    signals: AppSignals | None = None,
    cores: float = 1e6,
    inventory: Inventory = INVENTORY,
) -> tuple[SoldierInputs, I32]:
    status = Plant().status if status is None else status
    inputs, apps = soldier_inputs(status, signals or signals_of(), directive_of(cores), inventory)
    return inputs, apps.member


def steps_of(domain: int, inputs: SoldierInputs, member: I32) -> F32:
    """The steps of the members of a domain that have apps."""
    used = np.unique(member[0, INVENTORY.domain == domain]) - domain * MEMBERS
    found: F32 = inputs.feasible[0, domain, used]
    return found


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@given(st.sampled_from([np.nan, np.inf, -np.inf, -1e30, 1e30, 0.0, 3.0]))
def test_inputs_are_finite_and_bounded_whatever_was_measured(value: float) -> None:
    for cores in (1e6, value):
        inputs, member = asked(signals=signals_of(value=value), cores=cores)
        for port, values in zip(SOLDIER_INPUTS, inputs, strict=True):
            assert values.dtype == np.float32
            assert values.shape == (1, DOMAINS, *port.shape[1:])
            assert np.isfinite(values).all()
            assert port.low <= values.min() <= values.max() <= port.high
        assert ((member >= 0) & (member < DOMAINS * MEMBERS)).all()


def test_a_domain_reads_the_same_beside_other_domains_and_alone() -> None:
    together, member = asked()
    apps = np.flatnonzero(INVENTORY.domain == LOW)
    alone, own = asked(
        Plant().status[..., apps],
        AppSignals(*(one[..., apps] for one in signals_of())),
        inventory=only_domain(INVENTORY, apps),
    )
    np.testing.assert_array_equal(own, member[:, apps])
    for ours, theirs in zip(alone, together, strict=True):
        np.testing.assert_array_equal(ours[:, LOW], theirs[:, LOW])


def test_the_apps_most_at_risk_are_members_the_others_belong_to_tier_groups() -> None:
    count = 1000
    inventory = only_domain(INVENTORY, np.resize(np.flatnonzero(INVENTORY.domain == LOW), count))
    status = np.resize(Plant().status[0, :, :1], (rows.STATUS, count))[None].copy()
    status[:, rows.DOMAIN] = LOW
    status[:] = np.repeat(status[..., :1], count, axis=2)
    signals = signals_of(count)
    signals.features[:, APP.at("saturation")] = np.linspace(9.0, 0.0, count)
    for name in ("errors", "pending", "rps_trend", "headroom"):
        signals.features[:, APP.at(name)] = 0.0
    inputs, member = asked(status, signals, inventory=inventory)
    places = member[0] - LOW * MEMBERS
    assert places[:TOP].tolist() == list(range(GROUPS, MEMBERS))
    assert (places[TOP:] == np.minimum(inventory.tier[TOP:], GROUPS - 1)).all()
    assert inputs.cores[0, LOW].sum() == pytest.approx(1.0, abs=1e-5)


def test_no_step_is_always_feasible_and_all_are_where_there_is_room() -> None:
    inputs, member = asked()
    assert (inputs.feasible[..., NO_STEP] == 1.0).all()
    assert (steps_of(LOW, inputs, member) == 1.0).all()


def test_a_step_down_is_never_feasible_for_the_highest_priority() -> None:
    inputs, member = asked()
    down = np.array(STEPS) < 1.0
    assert (steps_of(P0, inputs, member)[:, down] == 0.0).all()
    assert (steps_of(P0, inputs, member)[:, ~down] == 1.0).all()


def test_a_step_that_the_budget_has_no_room_for_is_not_feasible() -> None:
    held = 20.0 * (INVENTORY.domain == LOW).sum()
    # Each app holds 20 cores: a fifth more are 4, a half more are 10.
    inputs, member = asked(cores=held + 5.0)
    assert (steps_of(LOW, inputs, member) == [1.0, 1.0, 1.0, 1.0, 0.0]).all()
    inputs, member = asked(cores=held)
    assert (steps_of(LOW, inputs, member) == [1.0, 1.0, 1.0, 0.0, 0.0]).all()


def test_steps_stay_within_declared_replicas() -> None:
    status = Plant().status
    status[:, rows.REPLICAS] = INVENTORY.max_replicas
    assert (steps_of(LOW, *asked(status, cores=1e9))[:, np.array(STEPS) > 1.0] == 0.0).all()
    status[:, rows.REPLICAS] = INVENTORY.min_replicas
    assert (steps_of(LOW, *asked(status))[:, np.array(STEPS) < 1.0] == 0.0).all()


def test_without_samples_only_no_step_is_feasible() -> None:
    signals = signals_of()
    signals.features[:, APP.at("missing")] = 1.0
    inputs, member = asked(signals=signals)
    steps = steps_of(LOW, inputs, member)
    assert (steps.sum(axis=1) == 1.0).all()

from services._kit.arrays import directive_of
from services._kit.inventory import DeclaredApps
from tests.service_helpers import CLUSTER, granted


def test_a_directive_has_the_epoch_and_the_validity_of_its_budget() -> None:
    budget = directive_of(granted(6, epoch=1, valid_until_tick=24), DeclaredApps(CLUSTER)).budget
    assert (budget.epoch.tolist(), budget.valid_until_tick.tolist()) == ([1], [24])

"""What the aggregator reports about apps besides its frames."""

from msgspec.structs import replace

from schemas.domain_observed import DomainObserved
from services._kit.clock import ManualClock
from services._kit.telemetry import Telemetry
from services.aggregator.metrics import Metrics
from tests.unit.services.system_helpers import example


def test_apps_whose_saturation_was_learned_are_counted() -> None:
    telemetry = Telemetry("aggregator", ManualClock())
    frame = example(DomainObserved)
    Metrics(telemetry)(replace(frame, features=frame.features | {"doubt": [0.2, 0.05, 0.0]}))
    labels = {"domain": frame.domain}
    assert telemetry.registry.get_sample_value("hirl_saturation_learned_apps", labels) == 1

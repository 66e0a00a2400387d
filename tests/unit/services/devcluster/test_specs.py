"""Every service accepts the settings that the development cluster gives it."""

from pathlib import Path

import pytest
from msgspec import Struct

from models.inputs.errors import InputError
from services._kit.settings import load
from services.actuator.settings import Settings as ActuatorSettings
from services.aggregator.settings import Settings as AggregatorSettings
from services.breaker.settings import Settings as BreakerSettings
from services.collector.settings import Settings as CollectorSettings
from services.commander.settings import Settings as CommanderSettings
from services.devcluster.kafka.description import Description
from services.devcluster.record import ServiceSpec
from services.devcluster.request import Request, simulation_of
from services.devcluster.specs import SERVICES, service_specs
from services.forecaster.settings import Settings as ForecasterSettings
from services.simcluster.settings import Settings as SimclusterSettings
from services.soldier.settings import Settings as SoldierSettings

KAFKA = Description(
    bootstrap="127.0.0.1:1", version="4", cluster_id="x", security="plain", nodes=()
)
SETTINGS: dict[str, type[Struct]] = {
    "simcluster": SimclusterSettings,
    "collector": CollectorSettings,
    "aggregator": AggregatorSettings,
    "forecaster": ForecasterSettings,
    "commander": CommanderSettings,
    "soldier": SoldierSettings,
    "actuator": ActuatorSettings,
    "breaker": BreakerSettings,
}


def specs_of(request: Request) -> dict[str, ServiceSpec]:
    cluster, scenario = request.load()
    timeline = scenario.timeline(cluster.tick_seconds)
    ports = list(range(5000, 5000 + len(SERVICES)))
    found = service_specs(request, timeline, KAFKA, Path("home"), Path("folder"), ports)
    return {spec.name: spec for spec in found}


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_accepts_its_environment(name: str) -> None:
    request = Request(apps=60, lock_step=True, mode="preview", cluster=None)
    kit, _ = load(name, SETTINGS[name], specs_of(request)[name].environment)
    assert kit.kafka_bootstrap == KAFKA.bootstrap
    assert kit.instance
    assert kit.lock_step
    assert kit.metrics_host == "127.0.0.1"


def test_a_free_running_cluster_starts_after_the_deciding_services() -> None:
    stages = {name: spec.stage for name, spec in specs_of(Request(apps=60, speed=6)).items()}
    assert stages["soldier"] < stages["simcluster"] < stages["collector"]
    assert {spec.stage for spec in specs_of(Request(apps=60, lock_step=True)).values()} == {0}


def test_the_forecaster_builds_one_rule_for_the_whole_scenario() -> None:
    environment = specs_of(Request(apps=60))["forecaster"].environment
    assert environment["HIRL_FORECASTER_RULE_MINUTES"] == "95"


def test_only_the_simulated_cluster_is_not_restarted_and_stops_last() -> None:
    found = specs_of(Request(apps=60))
    assert [name for name, spec in found.items() if not spec.restartable] == ["simcluster"]
    ending = [name for name, spec in found.items() if spec.ends_by_itself]
    assert ending == ["simcluster", "collector"]
    assert [name for name, spec in found.items() if spec.stops_last] == ["simcluster"]


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (Request(brokers=2), "--brokers"),
        (Request(speed=0.0), "--lock-step"),
        (Request(forecast="oracle"), "--forecast"),
    ],
)
def test_an_invalid_option_is_refused_by_name(request_: Request, words: str) -> None:
    with pytest.raises(InputError, match=words):
        request_.check()


def test_a_simulation_has_size_length_and_pace() -> None:
    request = Request(apps=60, speed=30.0)
    simulation = simulation_of(request, *request.load())
    assert (simulation.apps, simulation.total_ticks, simulation.pace) == (
        60,
        570,
        "30 times real time",
    )

"""Prometheus rules use only metrics and labels that the services export."""

import re
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from models.cluster.plan import Reason
from schemas.topics import BY_NAME
from services._kit.clock import SystemClock
from services._kit.telemetry import Telemetry
from services.actuator.metrics import Metrics as ActuatorMetrics
from services.breaker.metrics import Metrics as BreakerMetrics
from services.collector.metrics import Metrics
from services.commander.metrics import Metrics as CommanderMetrics
from services.provisioner.metrics import Metrics as ProvisionerMetrics
from tests.unit.infra.deploy_helpers import BESIDE_SIMULATED, PORT, ROOT, SIMULATED_PORT

FOLDER = ROOT / "infra/prometheus"
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((FOLDER / "rules.yml").read_text())["groups"]
    for rule in group["rules"]
]
ALERTS = [rule for rule in RULES if "alert" in rule]
RECORDED = {rule["record"] for rule in RULES if "record" in rule}


def exported(registry: CollectorRegistry) -> dict[str, set[str]]:
    """Labels of each metric, by its exported name."""
    found: dict[str, set[str]] = {}
    for names, metric in _collectors(registry):
        for name in names:
            found[name] = set(metric._labelnames) | ({"le"} if name.endswith("_bucket") else set())
    return found


def _collectors(registry: CollectorRegistry) -> list[tuple[list[str], Any]]:
    return [(names, metric) for metric, names in registry._collector_to_names.items()]


def code_metrics() -> dict[str, set[str]]:
    telemetry = Telemetry("example", SystemClock())
    Metrics(telemetry.registry)
    ActuatorMetrics(telemetry)
    CommanderMetrics(telemetry)
    BreakerMetrics(telemetry)
    ProvisionerMetrics().opened(telemetry)
    return exported(telemetry.registry)


METRICS = code_metrics()
TARGET_LABELS = {"job", "instance"}


def mentioned(expression: str) -> set[str]:
    return set(re.findall(r"\bhirl[_:][\w:]+", expression))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert") or rule["record"])
def test_a_rule_mentions_only_metrics_that_exist(rule: dict[str, Any]) -> None:
    names = mentioned(rule["expr"])
    assert names or "up{" in rule["expr"]
    assert names <= METRICS.keys() | RECORDED


def test_texts_of_alerts_mention_only_metrics_that_exist() -> None:
    for alert in ALERTS:
        existing = METRICS.keys() | RECORDED | {"hirl_collector_publish_seconds"}
        assert mentioned(alert["annotations"]["next"]) <= existing


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert") or rule["record"])
def test_a_rule_groups_by_labels_that_its_metrics_have(rule: dict[str, Any]) -> None:
    names = mentioned(rule["expr"]) - RECORDED
    labels_of_metrics = TARGET_LABELS.union(*(METRICS[name] for name in names))
    for labels in re.findall(r"by \(([^)]*)\)", rule["expr"]):
        assert {label.strip() for label in labels.split(",")} <= labels_of_metrics


def test_a_rule_selects_topics_and_reasons_that_exist() -> None:
    reasons = {reason.name.lower().replace("_", "-") for reason in Reason}
    # Reasons of the actuator that no plan has.
    reasons |= {"breaker-open", "breaker-stale", "target-unreadable"}
    for rule in RULES:
        assert set(re.findall(r'topic="([^"]*)"', rule["expr"])) <= BY_NAME.keys()
        assert set(re.findall(r'reason="([^"]*)"', rule["expr"])) <= reasons


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_says_what_is_wrong_and_what_to_do_next(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in {"critical", "warning"}
    assert set(alert["annotations"]) == {"summary", "next"}
    assert alert["annotations"]["summary"].endswith(".")
    shown = set(re.findall(r"\$labels\.(\w+)", alert["annotations"]["summary"]))
    assert shown <= TARGET_LABELS.union(*METRICS.values())


def test_every_alert_has_a_test_in_which_it_fires() -> None:
    tests = (FOLDER / "rules.test.yml").read_text()
    for alert in ALERTS:
        assert alert["alert"] in tests


def test_every_service_is_scraped_at_its_port() -> None:
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    ours, apps = config["scrape_configs"]
    (found,) = ours["dns_sd_configs"]
    assert sorted([*found["names"], "simcluster"]) == BESIDE_SIMULATED
    assert found["port"] == PORT
    assert apps["static_configs"] == [{"targets": [f"simcluster:{SIMULATED_PORT}"]}]
    assert config["rule_files"] == ["rules.yml"]


def test_the_actuator_counts_holds() -> None:
    sources = (ROOT / "services/actuator").glob("*.py")
    assert any(
        "holds" in source.read_text() and "labels" in source.read_text() for source in sources
    )

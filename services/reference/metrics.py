"""The page about metrics and alerts, from the calls that declare them and the alert rules."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from services.reference.fields import SERVICES
from services.reference.markdown import NOTE, ROOT, joined, literal_string, table

RULES: Final = ROOT / "infra" / "prometheus" / "rules.yml"
_METRIC_KINDS: Final = {"Counter": "counter", "Gauge": "gauge", "Histogram": "histogram"}
_ABOUT_METRICS: Final = (
    "Every service serves `/metrics`, `/healthz` and `/readyz` at `HIRL_METRICS_HOST` and "
    "`HIRL_METRICS_PORT`. Labels are topics, domains and words of the code, so their number is "
    "bounded."
)


class Metric(NamedTuple):
    """A Prometheus metric as the code declares it."""

    name: str
    kind: str
    labels: str
    about: str


def metrics_page() -> str:
    """Every metric with its labels, and every alert with what to do."""
    lines = ["# Metrics and alerts", "", NOTE, "", _ABOUT_METRICS]
    for title, folder in (
        ("Every service", "_kit"), *((service, service) for service in SERVICES)
    ):  # fmt: skip
        if found := list(_metrics(ROOT / "services" / folder)):
            rows = [(f"`{m.name}`", m.kind, m.labels, m.about) for m in found]
            lines += ["", f"## {title}", "", *table(("metric", "type", "labels", "meaning"), rows)]
    rules = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    alerts = [rule for group in rules["groups"] for rule in group["rules"] if "alert" in rule]
    rows = [
        (
            f"`{rule['alert']}`",
            rule["labels"]["severity"],
            rule.get("for", "at once"),
            f"{rule['annotations']['summary']} {rule['annotations']['next']}",
        )
        for rule in alerts
    ]
    lines += ["", "## Alerts", "", "From `infra/prometheus/rules.yml`.", ""]
    lines += table(("alert", "severity", "after", "what it says, what to do"), rows)
    return joined(lines)


def _metrics(folder: Path) -> Iterator[Metric]:
    for file in sorted(folder.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            kind = _METRIC_KINDS.get(node.func.id)
            name = literal_string(node.args[0]) if kind and node.args else None
            if kind is None or name is None or not name.startswith("hirl_"):
                continue
            labels = node.args[2] if len(node.args) > 2 else None
            names = ast.literal_eval(labels) if isinstance(labels, ast.List) else []
            yield Metric(name, kind, ", ".join(names), literal_string(node.args[1]) or "")

"""Changes are counted where the API server wrote them down."""

import json
from datetime import UTC, datetime
from pathlib import Path

from services.lab.world.report import changes

EARLY, LATE = "2026-11-19T02:00:00.000000Z", "2026-11-19T03:00:00.000000Z"
SINCE = datetime(2026, 11, 19, 2, 30, tzinfo=UTC).timestamp()


def line(name: str, at: str = LATE, code: int = 200, **changed: str) -> str:
    plain = {
        "auditID": "a", "stage": "ResponseComplete", "verb": "patch",
        "requestReceivedTimestamp": at, "responseStatus": {"code": code},
        "objectRef": {"name": name, "subresource": changed.pop("subresource", "scale")},
    }  # fmt: skip
    return json.dumps(plain | changed)


def test_only_accepted_writes_of_replicas_count(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    lines = [
        line("web"), line("web", verb="update"), line("api"),
        line("web", at=EARLY), line("web", code=409), line("web", stage="RequestReceived"),
        line("web", verb="get"), line("web", subresource="status"),
    ]  # fmt: skip
    log.write_text("\n".join(lines) + "\n")
    assert changes(log, SINCE) == {"web": 2, "api": 1}

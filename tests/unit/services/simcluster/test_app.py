"""The process of the simulated cluster, before it has a world."""

import urllib.error
import urllib.request

import pytest

from services._kit.errors import BadSettings
from services._kit.telemetry import COMPILING
from services.devcluster.processes import free_ports
from services.simcluster import app
from services.simcluster.settings import Settings


def test_probes_are_answered_while_kernels_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    seen: dict[str, tuple[int, str]] = {}

    def ask(path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def compile_slowly(_: object) -> None:
        seen.update((path, ask(path)) for path in ("/healthz", "/readyz"))

    monkeypatch.setattr(app, "world_of", lambda _: None)
    monkeypatch.setattr(app, "compile_kernels", compile_slowly)
    app.prepared_world(Settings(scenario="calm", port=port))
    assert seen == {"/healthz": (200, "alive\n"), "/readyz": (503, f"{COMPILING}\n")}


def test_a_world_that_cannot_be_built_is_one_line() -> None:
    with pytest.raises(BadSettings, match="apps: expected at least 5"):
        app.prepared_world(Settings(scenario="calm", port=0, apps=2))

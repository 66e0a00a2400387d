"""Bills of materials, licences and the audit follow from the locks, and work offline."""

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("supply_chain", ROOT / ".ci/supply_chain.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


chain: Any = load()
LOCK = ROOT / "infra/locks/serving.txt"


def test_the_bill_of_materials_has_every_package_of_the_lock_with_its_hashes() -> None:
    text = LOCK.read_text()
    bill = chain.sbom(LOCK)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    assert len(bill["components"]) == len(re.findall(r"^\S+==", text, re.MULTILINE))
    hashes = [one for part in bill["components"] for one in part["externalReferences"][0]["hashes"]]
    assert len(hashes) == text.count("--hash=sha256:")


def test_the_same_lock_gives_the_same_bill_of_materials(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        assert chain.main(["sbom", str(tmp_path / folder)]) == 0
    files = sorted((tmp_path / "one").iterdir())
    assert [file.name for file in files] == [
        f"{name}.cdx.json" for name in ("bootstrap", "dev", "serving", "training")
    ]
    for file in files:
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()


@pytest.mark.parametrize(
    "licence",
    ["MIT", "BSD-3-Clause AND 0BSD", "License :: OSI Approved :: Apache Software License"],
)
def test_permissive_licences_are_accepted(licence: str) -> None:
    assert chain.licence_problem(licence) == ""


@pytest.mark.parametrize("licence", ["", "GPL-3.0", "MIT AND AGPL-3.0", "LGPLv2", "Proprietary"])
def test_other_licences_are_refused(licence: str) -> None:
    assert chain.licence_problem(licence)


def test_every_package_of_the_development_lock_has_an_agreed_licence() -> None:
    checked, problems = chain.licences(ROOT / "infra/locks/dev.txt")
    assert problems == []
    assert checked > 50


def test_an_audit_names_packages_with_known_vulnerabilities() -> None:
    packages = chain.packages_of(LOCK)[:2]

    def ask(body: bytes) -> bytes:
        asked = json.loads(body)["queries"]
        assert [one["package"]["purl"] for one in asked] == [one.purl for one in packages]
        return json.dumps({"results": [{}, {"vulns": [{"id": "CVE-1"}]}]}).encode()

    assert chain.audit(packages, ask) == [f"{packages[1].name} {packages[1].version}: CVE-1"]


def test_an_audit_without_a_network_is_a_note(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def offline(_: bytes) -> bytes:
        raise OSError("no route")

    monkeypatch.setattr(chain, "_ask_osv", offline)
    monkeypatch.delenv("REQUIRE_AUDIT", raising=False)
    assert chain.main(["audit"]) == 0
    assert "note: not audited" in capsys.readouterr().out
    monkeypatch.setenv("REQUIRE_AUDIT", "1")
    assert chain.main(["audit"]) == 1


def test_ci_checks_licences_and_vulnerabilities_writes_bills_and_fuzzes() -> None:
    make = (ROOT / "Makefile").read_text()
    for target in ("sbom", "licences", "audit", "fuzz"):
        assert f"\n{target}: setup ##" in make
    (checks,) = [line for line in make.splitlines() if line.startswith("checks:")]
    assert "licences" in checks.split()
    steps = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["presubmit"]
    assert {"run": ".ci/run"} in steps["steps"]
    assert "\nmake sbom audit\n" in (ROOT / ".ci/run").read_text()

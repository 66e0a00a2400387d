"""What we ship and build with: bills of materials, licences, known vulnerabilities.

    python .ci/supply_chain.py sbom FOLDER     CycloneDX files of the locks; needs no network
    python .ci/supply_chain.py licences        refuse licences we did not agree to; needs no network
    python .ci/supply_chain.py audit           ask osv.dev; offline this is a note, not a failure

The locks are the source: a package that is not in them is in no image.
"""

import json
import os
import re
import sys
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
LOCKS: Final = ROOT / "infra" / "locks"
SHIPPED: Final = "serving"
"""The lock of the image."""
_ALLOWED: Final = re.compile(
    r"\b(MIT|0?BSD|Apache|PSF|Python Software Foundation|ISC|MPL|Mozilla Public License"
    r"|Zlib|CC0|MIT-CMU|Repoze)",
    re.IGNORECASE,
)
"""Permissive licences, and MPL, whose copyleft ends at its own files."""
_REFUSED: Final = re.compile(r"(GPL|General Public License|SSPL|BUSL|Commons Clause)")
_OSV: Final = "https://api.osv.dev/v1/querybatch"
_TIMEOUT_S: Final = 20

Ask = Callable[[bytes], bytes]


class Package(NamedTuple):
    """A package of a lock."""

    name: str
    version: str
    hashes: tuple[str, ...]

    @property
    def purl(self) -> str:
        """Its name in bills of materials and advisories."""
        return f"pkg:pypi/{self.name}@{self.version}"


def packages_of(lock: Path) -> list[Package]:
    """All packages that a lock pins."""
    found = []
    for line in lock.read_text().replace("\\\n", " ").splitlines():
        pin = re.match(r"([a-z0-9-]+)==([^\s;]+)", line)
        if pin is not None:
            hashes = tuple(sorted(re.findall(r"--hash=sha256:([0-9a-f]{64})", line)))
            found.append(Package(pin[1], pin[2], hashes))
    return found


def sbom(lock: Path) -> dict[str, Any]:
    """The bill of materials of a lock: the same lock gives the same file."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": project["name"],
                "version": project["version"],
                "purl": f"pkg:pypi/{project['name']}@{project['version']}",
            },
            "properties": [{"name": "hirl:lock", "value": lock.name}],
        },
        "components": [_component(package) for package in packages_of(lock)],
    }


def _component(package: Package) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": package.purl,
        "name": package.name,
        "version": package.version,
        "purl": package.purl,
        # One hash per wheel and source archive; an installation has one of them.
        "externalReferences": [
            {
                "type": "distribution",
                "url": f"https://pypi.org/project/{package.name}/{package.version}/",
                "hashes": [{"alg": "SHA-256", "content": value} for value in package.hashes],
            }
        ],
    }


def licence_of(name: str) -> str | None:
    """What an installed package says about its licence; None if it is not installed here."""
    try:
        about = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return None
    classifiers = [text for text in about.get_all("Classifier") or () if text.startswith("License")]
    words = [about.get("License-Expression"), about.get("License"), *classifiers]
    return " | ".join(word.splitlines()[0].strip() for word in words if word and word.strip())


def licence_problem(licence: str) -> str:
    """Why a licence is refused; empty if it is fine."""
    if _REFUSED.search(licence):
        return "is not compatible with how this project is distributed"
    return "" if _ALLOWED.search(licence) else "is not on the list of agreed licences"


def licences(lock: Path, read: Callable[[str], str | None] = licence_of) -> tuple[int, list[str]]:
    """Packages that were checked, and a line for each that is refused."""
    checked, problems = 0, []
    for package in packages_of(lock):
        licence = read(package.name)
        # Markers leave some packages of a lock out on this platform.
        if licence is None:
            continue
        checked += 1
        if problem := licence_problem(licence):
            problems.append(f"{package.name} {package.version}: `{licence}` {problem}")
    return checked, problems


def audit(packages: Sequence[Package], ask: Ask) -> list[str]:
    """A line for each known vulnerability; raises OSError without a network."""
    queries = [{"package": {"purl": package.purl}} for package in packages]
    results = json.loads(ask(json.dumps({"queries": queries}).encode()))["results"]
    return [
        f"{package.name} {package.version}: {', '.join(one['id'] for one in result['vulns'])}"
        for package, result in zip(packages, results, strict=True)
        if result.get("vulns")
    ]


def _ask_osv(body: bytes) -> bytes:
    request = urllib.request.Request(_OSV, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310  a constant
        found: bytes = answer.read()
        return found


def _say(text: str) -> None:
    print(f"supply-chain: {text}")  # noqa: T201  a script


def main(arguments: Sequence[str]) -> int:
    """Run one of the commands; 1 if something is refused or vulnerable."""
    match list(arguments):
        case ["sbom", folder]:
            Path(folder).mkdir(parents=True, exist_ok=True)
            for lock in sorted(LOCKS.glob("*.txt")):
                file = Path(folder) / f"{lock.stem}.cdx.json"
                file.write_text(json.dumps(sbom(lock), indent=2) + "\n")
                _say(f"{file}: {len(packages_of(lock))} packages")
            return 0
        case ["licences"]:
            checked, problems = licences(LOCKS / "dev.txt")
            for problem in problems:
                _say(problem)
            _say(f"{checked} licences checked, {len(problems)} refused")
            return 1 if problems else 0
        case ["audit"]:
            try:
                found = audit(packages_of(LOCKS / f"{SHIPPED}.txt"), _ask_osv)
            except OSError as error:
                _say(f"note: not audited, osv.dev cannot be reached ({error})")
                return 1 if os.environ.get("REQUIRE_AUDIT") else 0
            for line in found:
                _say(line)
            _say(f"{len(found)} packages with known vulnerabilities")
            return 1 if found else 0
        case _:
            _say("expected sbom FOLDER, licences or audit")
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

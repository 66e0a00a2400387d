"""`hirl models evaluate`: the gate, with a report."""

import html
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import numpy as np
import typer
from rich.console import Console

from models.inputs.errors import InputError
from models.registry.evidence import Evidence, read_evidence
from models.registry.gate import Limits, Present, Verdict, judge
from models.registry.load import ROWS, Artefact
from models.registry.manifest import Kind
from services.cli.bus.tail import BootstrapOption, CredentialsOption
from services.cli.commands import examples
from services.cli.models.options import ArtefactArgument, KeysOption, Place, StoreOption
from services.cli.options import ClusterOption, JsonOption
from services.cli.output import plain_console, table, write_json
from services.cli.page import page, write_page

if TYPE_CHECKING:
    from services.admin.reader import TopicReader

_BODY: Final = Path(__file__).with_name("gate.html")
_TIMED: Final = 200

EvidenceOption = Annotated[
    Path | None,
    typer.Option(
        "--evidence", metavar="FILE",
        help="Measured figures (JSON): runs of both models, features, overruns, costs.",
    ),
]  # fmt: skip
EqualOption = Annotated[
    bool, typer.Option("--equal-ok", help="Accept a model that is not known to be better.")
]


@examples(
    "hirl models evaluate 4785f03a8924 --evidence evidence.json --report .hirl/gate",
    "hirl models evaluate 4785f03a8924 --evidence evidence.json --live",
    "hirl models evaluate .hirl/models/forecaster --json verdict.json",
)
def evaluate(
    artefact: ArtefactArgument,
    evidence: EvidenceOption = None,
    equal_ok: EqualOption = False,
    store: StoreOption = None,
    keys: KeysOption = None,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="Compare recorded frames with training, and judge by the thresholds in force.",
        ),
    ] = False,
    cluster: ClusterOption = None,
    bootstrap: BootstrapOption = None,
    credentials: CredentialsOption = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="DIR", help="Write gate.html and gate.json.")
    ] = None,
    json: JsonOption = None,
) -> None:
    """Judge a model by recorded evidence; exit 1 if it may not be promoted.

    Parity, features and decision time are measured here, with --live drift as well; the rest comes
    from the file of evidence. What nobody measured fails its check.
    """
    found = Place(store, keys).artefact(artefact)
    limits, drift = Limits(), None
    if live:
        from services.admin.promotions import KEYS, limits_of, read_history  # noqa: PLC0415
        from services.admin.reader import TopicReader  # noqa: PLC0415  loads Kafka's client
        from services.devcluster.connect import options_of  # noqa: PLC0415  as above

        with TopicReader(options_of(bootstrap, credentials)) as reader:
            limits = limits_of(read_history(reader), KEYS[found.manifest.kind])
            drift = recorded(reader, cluster, found)
    verdict = verdict_of(found, evidence, limits, drift, equal_ok=equal_ok)
    _print(found, verdict)
    if report is not None:
        write_json(report / "gate.json", verdict)
        write_page(report / "gate.html", _page(found, verdict, evidence))
        plain_console().print(f"written: {report / 'gate.html'}")
    if json is not None:
        write_json(json, verdict)
    if not verdict.accepted:
        raise typer.Exit(1)


def recorded(
    reader: "TopicReader", cluster: Path | None, artefact: Artefact
) -> dict[str, float] | None:
    """The drift of the frames that a running system has recorded; None: unknown."""
    from services._kit.inventory import cluster_of  # noqa: PLC0415  slow to import
    from services.admin.frames import recorded_drift  # noqa: PLC0415  as above

    return recorded_drift(reader, cluster_of("" if cluster is None else str(cluster)), artefact)


def verdict_of(
    artefact: Artefact,
    file: Path | None,
    limits: Limits,
    drift: dict[str, float] | None,
    *,
    equal_ok: bool,
) -> Verdict:
    """Complete the evidence of a file by what was measured here, and judge it."""
    evidence = Evidence() if file is None else read_evidence(file)
    if drift is not None:
        evidence = msgspec.structs.replace(evidence, drift=drift)
    measured = _measured(artefact, evidence)
    present = _present(artefact.manifest.kind)
    return judge(artefact.manifest, measured, present, limits, equal_ok=equal_ok)


def check_passes(
    artefact: Artefact,
    file: Path | None,
    limits: Limits,
    drift: dict[str, float] | None,
    *,
    equal_ok: bool,
) -> None:
    """Raise InputError with the first check that fails."""
    reasons = verdict_of(artefact, file, limits, drift, equal_ok=equal_ok).reasons
    if reasons:
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        raise InputError(
            f"{artefact.name}: the gate refuses it: {reasons[0]}{more}; "
            "hirl models evaluate shows all"
        )


def _measured(artefact: Artefact, evidence: Evidence) -> Evidence:
    """With parity and decision time of the samples; without samples nobody measured them."""
    from models.registry.parity import difference  # noqa: PLC0415  loads numpy only when called
    from models.registry.session import Fault, Session  # noqa: PLC0415  loads onnxruntime

    if artefact.samples is None:
        return msgspec.structs.replace(evidence, parity=None, states=0, decision_ms=None)
    session, samples = Session(artefact), artefact.samples
    rows = {tensor.name for tensor in artefact.manifest.inputs if tensor.shape[:1] == [ROWS]}
    one = {n: values[:1] if n in rows else values for n, values in samples.inputs.items()}
    seconds = np.empty(_TIMED)
    try:
        parity = difference(session.run(samples.inputs), samples.outputs)
        for index in range(_TIMED):
            began = time.perf_counter()
            session.run(one)
            seconds[index] = time.perf_counter() - began
    except Fault as fault:
        raise InputError(f"{artefact.name}: its own samples: {fault}") from None
    p99 = float(np.quantile(seconds, 0.99)) * 1000
    return msgspec.structs.replace(evidence, parity=parity, states=artefact.states, decision_ms=p99)


def _present(kind: Kind) -> Present:
    """The features and the code of this release."""
    from models.compare.families import HEURISTIC, family_of  # noqa: PLC0415  loads the simulator
    from models.compare.provenance import family_code  # noqa: PLC0415  as above

    return Present(_features_sha256(kind), family_code(family_of(HEURISTIC)))


def _features_sha256(kind: Kind) -> str:
    """Digest of the features that this release encodes."""
    from models.forecaster.learned import artefact as forecasters  # noqa: PLC0415
    from models.policies import packing  # noqa: PLC0415

    if kind == "forecaster":
        return forecasters.features_sha256()
    return packing.features_sha256(kind)


def _print(artefact: Artefact, verdict: Verdict) -> None:
    rows = [
        (check.name, "passed" if check.passed else "FAILED", check.found)
        for check in verdict.checks
    ]
    Console().print(table(f"The gate for {artefact.name}", ("check", "", "found"), rows))
    console = plain_console()
    for reason in verdict.reasons:
        console.print(f"refused: {reason}")
    if verdict.accepted:
        console.print(f"{artefact.name} may be promoted")


def _page(artefact: Artefact, verdict: Verdict, evidence: Path | None) -> str:
    rows = [("check", "outcome", "found", "allowed", "what would pass")]
    rows += [
        (c.name, "passed" if c.passed else "failed", c.found, c.allowed, c.remedy)
        for c in verdict.checks
    ]
    cells = ("".join(f"<td>{html.escape(text)}</td>" for text in row) for row in rows)
    return page(
        f"{'Accepted' if verdict.accepted else 'Refused'}: {artefact.name}",
        _BODY,
        run=html.escape(f"version {artefact.version}; evidence: {evidence or 'none'}"),
        summary="".join(f"<tr>{row}</tr>" for row in cells),
    )

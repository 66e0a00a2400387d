"""What was measured of a model, by whoever judged it: what the gate decides on.

Evidence names the artefact, the world and the code that it was measured with: of anything else it
says nothing. What was not measured is None, and is not known to be harmless.
"""

from pathlib import Path

import msgspec

from models.inputs.errors import InputError

Table = list[list[float]]
"""[scenarios, seeds]."""


class Runs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The same figure of both models: scenarios by seeds, the same seeds for both."""

    scenarios: list[str]
    candidate: Table
    incumbent: Table


class Cost(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Costs of independent simulated trajectories, the cap, and how exact the bound has to be."""

    trajectories: list[float]
    cap: float
    epsilon: float


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What was measured; None where nothing was."""

    artefact: str = ""
    """Version of the artefact that it is about."""
    world_sha256: str = ""
    """Digest of the simulated world that the figures come from, whatever its scenarios
    (`models.compare.provenance.physics_hash`)."""
    code_sha256: str = ""
    """Digest of the code that decided beside it (`models.compare.provenance.family_code`)."""
    parity: float | None = None
    """Largest difference between the outputs here and those of the network it was exported from."""
    states: int = 0
    """Number of states it was measured on."""
    drift: dict[str, float] | None = None
    """How far each feature of recorded frames is from training, beyond any run of training
    (`models.registry.drift`, as services watch it)."""
    objective: Runs | None = None
    """J."""
    equal_cost: Runs | None = None
    """J, beside that of the incumbent with its targets moved until it costs as many node-hours:
    more nodes for everyone need no learning. Of policies only."""
    p0_minutes: Runs | None = None
    """Violation minutes of the highest priority."""
    budget_overruns: int | None = None
    spend_overruns: int | None = None
    oscillation: float | None = None
    """Share of decisions that undo the one before."""
    cost: Cost | None = None
    decision_ms: float | None = None
    """99th percentile."""


def read_evidence(file: Path) -> Evidence:
    """The evidence of a file; raises InputError if it is none."""
    try:
        found = msgspec.json.decode(file.read_bytes(), type=Evidence)
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{file}: {error}") from None
    _check_runs(found, str(file))
    return found


def _check_runs(evidence: Evidence, where: str) -> None:
    """Refuse tables that are no pairs of figures, and figures of different scenarios."""
    runs = {
        name: found
        for name in ("objective", "equal_cost", "p0_minutes")
        if (found := getattr(evidence, name)) is not None
    }
    for name, one in runs.items():
        rows = (*one.candidate, *one.incumbent)
        seeds = {len(row) for row in rows}
        if (
            len(one.scenarios) != len(one.candidate)
            or len(one.scenarios) != len(one.incumbent)
            or len(seeds) != 1
            or 0 in seeds
        ):
            raise InputError(
                f"{where}: {name}: expected a row for each scenario in candidate and incumbent, "
                "with a figure for each seed"
            )
        if len(set(one.scenarios)) != len(one.scenarios):
            raise InputError(f"{where}: {name}: names a scenario twice")
    if len({frozenset(one.scenarios) for one in runs.values()}) > 1:
        # A gain in some scenarios does not excuse a loss of P0 in others that are left out.
        raise InputError(f"{where}: {', '.join(runs)}: expected the same scenarios in all of them")

"""A finished race as the outcome of a benchmark with one seed, so that both share a report."""

from html import escape
from pathlib import Path

from models.compare.hashes import combined
from models.compare.outcome import Outcome
from models.compare.race import Lane, Race
from models.compare.request import Request
from services.cli.comparison.report import Section, write_report
from services.cli.simulation.report import failure_line


def outcome_of(race: Race, request: Request, seconds: float, command: str) -> Outcome:
    """What the race came to, job by job."""
    left = {lane.name: lane.leave() for lane in race.lanes}
    worlds = {name: job.world_hash for name, job in left.items()}
    return Outcome(
        request=request,
        world_hash=combined(worlds.values()),
        world_hashes={request.shown.name: worlds},
        code_hash=combined(job.code_hash for job in left.values()),
        jobs=list(left.values()),
        reused=0,
        seconds=seconds,
        command=command,
    )


def write_race(folder: Path, race: Race, outcome: Outcome) -> Path:
    """Write the report of the race into `folder`; returns the file."""
    request = outcome.request
    name = f"race-{request.shown.name}-{request.seeds[0]}.html"
    return write_report(folder, outcome, name, [_failures(race)])


def _failures(race: Race) -> Section:
    return Section(
        "Which failures occurred",
        "Stampede, cascade and priority inversion, as they were named while the race ran; minutes "
        "count from the end of the warm-up.",
        "".join(f"<h3>{escape(lane.name)}</h3><ul>{_listed(lane)}</ul>" for lane in race.lanes),
    )


def _listed(lane: Lane) -> str:
    lines = [failure_line(lane.world, finding) for finding in lane.findings()]
    return "".join(f"<li>{line}</li>" for line in lines or ["None of the three."])

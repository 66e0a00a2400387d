"""Settings of a process: a file, and `HIRL_*` variables that win over it; checked once, at start.

A file has a section `kit` and one per service. A field `x` of the kit is `HIRL_X` in the
environment, a field `y` of the soldier's own settings is `HIRL_SOLDIER_Y`.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, get_args, get_type_hints

import msgspec
import yaml

from schemas.topics import ANY, TOPICS

T = TypeVar("T", bound=msgspec.Struct)

KIT: Final = "kit"
FILE: Final = "HIRL_CONFIG"
"""Variable that names the file."""
_PREFIX: Final = "HIRL_"
_TOOLS: Final = frozenset({FILE, "HIRL_TRACES", "HIRL_REQUIRE_REAL", "HIRL_FULL_LOCK_STEP"})
"""Variables of the command line and of tests, which a service does not read."""


class BadSettings(ValueError):  # noqa: N818  it names what is bad
    """Settings that cannot be used: one line that says which and why."""


class Unprepared(Exception):  # noqa: N818  it says what is not prepared
    """Something outside has to be there first: one line that says what to do; then start again."""


class NoSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of a service that has none of its own."""


class KitSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What every service needs."""

    kafka_bootstrap: str = "127.0.0.1:9092"
    """Brokers to ask first: host:port, separated by commas."""
    kafka_security: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """How to talk to the brokers."""
    kafka_mechanism: Literal["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"] = "SCRAM-SHA-512"
    """How a password is shown to the brokers."""
    kafka_user: str = ""
    """Name under which the service is known to the brokers."""
    kafka_password: str = ""
    """Its password; better given by the environment than by a file."""
    kafka_ca: str = ""
    """PEM file of the authority that signed the brokers' certificates; empty: the system's."""
    adapter: Literal["faust", "plain"] = "faust"
    """What consumes in the group; plain is there to measure what Faust costs."""
    instance: str = ""
    """Of several processes of a service, which this is; the same after a restart, different for
    each. With it a restarted process gets its partitions back at once. Empty: a stranger each
    time."""
    session_timeout_seconds: float = 6.0
    """After which a silent process loses its partitions to others."""
    heartbeat_seconds: float = 2.0
    """Between signs of life to the group."""
    commit_seconds: float = 0.5
    """Between commits of offsets: what a crash may deliver again."""
    drain_seconds: float = 10.0
    """To finish what is under way when asked to stop."""
    in_flight: int = 64
    """Events that may be under way at a time; of one key there is never more than one."""
    silence_seconds: float = 60.0
    """Without asking the bus for records, after which a process is not healthy."""
    metrics_host: str = "127.0.0.1"
    """Address of /metrics, /healthz and /readyz; containers say 0.0.0.0."""
    metrics_port: int = -1
    """Port of the same; -1: none, 0: any."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """From which level on to log."""
    lock_step: bool = False
    """The cluster waits for every tick to close; then nothing is given up for being late."""
    grace_seconds: float = 2.0
    """To wait, on the wall clock, for what is missing of a tick. Not used in lock-step."""
    speed: float = 1.0
    """Seconds of event time per second on the wall, where a simulated cluster runs freely."""

    def __post_init__(self) -> None:
        positive = ("session_timeout_seconds", "heartbeat_seconds", "commit_seconds", "in_flight")
        for name in (*positive, "drain_seconds", "silence_seconds", "speed"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: expected more than 0, got {getattr(self, name)}")
        # None at all is no mistake: what is not there at once is given up.
        if not self.grace_seconds >= 0:
            raise ValueError(f"grace_seconds: expected 0 or more, got {self.grace_seconds}")
        if self.heartbeat_seconds * 2 > self.session_timeout_seconds:
            raise ValueError("heartbeat_seconds: expected at most half of session_timeout_seconds")
        if self.kafka_security.startswith("SASL") and not self.kafka_user:
            raise ValueError(
                f"kafka_user: expected a name, as kafka_security={self.kafka_security}"
            )

    @property
    def patience_seconds(self) -> float | None:
        """How long a handler waits for the rest of a tick; None: for ever."""
        return None if self.lock_step else self.grace_seconds


def load(
    service: str, own: type[T], environment: Mapping[str, str], file: str | None = None
) -> tuple[KitSettings, T]:
    """The kit's settings and the service's own; BadSettings on anything wrong or unknown."""
    name = file or environment.get(FILE)
    sections = _read(Path(name)) if name else {}
    known = {KIT, service, *_services()}
    if strangers := sorted(sections.keys() - known):
        raise BadSettings(f"{name}: unknown section `{strangers[0]}`")
    kit, mine = _from_environment(service, environment, known - {KIT})
    return (
        _convert(KIT, {**sections.get(KIT, {}), **kit}, KitSettings),
        _convert(service, {**sections.get(service, {}), **mine}, own),
    )


def _convert(section: str, values: dict[str, Any], kind: type[T]) -> T:
    try:
        # Not strict: the environment has only text.
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadSettings(f"{section}: {_explained(str(error), section, kind)}") from None


def _explained(error: str, section: str, kind: type[msgspec.Struct]) -> str:
    """With the variable that it may have come from, and what is allowed where that is a list."""
    what, _, place = error.partition(" - at `$.")
    field = place.removesuffix("`")
    if not field:
        known = f", expected some of {', '.join(kind.__struct_fields__)}"
        return error + known * ("unknown field" in what)
    owner = "" if section == KIT else f"{section.upper()}_"
    choices = get_args(get_type_hints(kind).get(field))
    allowed = f", expected {' or '.join(choices)}" if "enum" in what else ""
    return f"{field} ({_PREFIX}{owner}{field.upper()}): {what}{allowed}"


def _from_environment(
    service: str, environment: Mapping[str, str], services: set[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Values for the kit and for the service. Those of other services are none of our business."""
    kit: dict[str, str] = {}
    mine: dict[str, str] = {}
    for variable, value in environment.items():
        if not variable.startswith(_PREFIX) or variable in _TOOLS:
            continue
        field = variable.removeprefix(_PREFIX).lower()
        owner = next((one for one in services if field.startswith(f"{one}_")), None)
        if owner == service:
            mine[field.removeprefix(f"{service}_")] = value
        elif owner is None:
            kit[field] = value
    return kit, mine


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
        found = tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, yaml.YAMLError) as error:
        raise BadSettings(f"{path}: {' '.join(str(error).split())}") from None
    try:
        return msgspec.convert(found or {}, dict[str, dict[str, Any]])
    except msgspec.ValidationError as error:
        raise BadSettings(f"{path}: expected sections with fields, {error}") from None


def _services() -> set[str]:
    """Who may have a section: everybody who reads or writes a topic."""
    named = {name for topic in TOPICS for name in (*topic.producers, *topic.consumers)}
    return named - {ANY} | {"simcluster", "console"}

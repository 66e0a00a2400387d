"""Settings of a process: a file, overridden by `HIRL_*` variables; validated once, at start.

A file has a section `kit` and one per service. A field `x` of the kit is `HIRL_X` in the
environment, a field `y` of the soldier's own settings is `HIRL_SOLDIER_Y`.
"""

import tomllib
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, get_args, get_type_hints

import msgspec
import yaml

from schemas.topics import ANY, TOPICS
from services._kit.errors import BadSettings

T = TypeVar("T", bound=msgspec.Struct)

KIT: Final = "kit"
FILE: Final = "HIRL_CONFIG"
"""Variable that names the file."""
_PREFIX: Final = "HIRL_"
_TOOLS: Final = frozenset(
    {FILE, "HIRL_KERNELS", "HIRL_TRACES", "HIRL_REQUIRE_REAL", "HIRL_FULL_LOCK_STEP"}
)
"""Variables of the image, the command line and tests, which are no settings of a service."""


SECRETS: Final = ("kafka_password",)
"""Settings that are never shown, and that a file can hold: its path is in HIRL_X_FILE."""


class KitSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of every service."""

    kafka_bootstrap: str = "127.0.0.1:9092"
    """Bootstrap brokers: host:port, separated by commas."""
    kafka_security: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """Security protocol of the brokers. Brokers on other machines need TLS: SASL_SSL or SSL."""
    kafka_allow_plaintext: bool = False
    """Whether records and passwords may go unencrypted to brokers on other machines."""
    kafka_mechanism: Literal["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"] = "SCRAM-SHA-512"
    """SASL mechanism."""
    kafka_user: str = ""
    """SASL user; required with SASL."""
    kafka_password: str = ""
    """SASL password. Set it in the environment, or name a file with HIRL_KAFKA_PASSWORD_FILE."""
    kafka_ca: str = ""
    """PEM file of the CA that signed the brokers' certificates; empty: the system's CAs."""
    adapter: Literal["faust", "plain"] = "faust"
    """Consumer library; plain (aiokafka alone) is for measuring what Faust costs."""
    instance: str = ""
    """Name of this process among those of the service: unique, and the same after a restart. With
    it a restarted process gets its partitions back at once. Empty: a new member each time."""
    session_timeout_seconds: float = 6.0
    """Time without heartbeats after which a process loses its partitions."""
    heartbeat_seconds: float = 2.0
    """Interval of heartbeats to the group; at most half of the session timeout."""
    commit_seconds: float = 0.5
    """Interval of offset commits: what a crash may redeliver."""
    acknowledgement_seconds: float = 40.0
    """Timeout for the brokers to acknowledge a record. Then the process ends, and the next one
    waits for the brokers at its start. The collector waits for them without ending."""
    drain_seconds: float = 10.0
    """Timeout for finishing events in flight after SIGTERM."""
    in_flight: int = 64
    """Events handled at a time; never more than one per key."""
    silence_seconds: float = 60.0
    """Time without polling the bus after which the process is unhealthy."""
    metrics_host: str = "127.0.0.1"
    """Address of /metrics, /healthz and /readyz; 0.0.0.0 in containers."""
    metrics_port: int = -1
    """Port of /metrics, /healthz and /readyz; -1: none, 0: any free port."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level that is logged."""
    lock_step: bool = False
    """Whether the simulated cluster waits for every tick to close; then nothing is ever late."""
    grace_seconds: float = 2.0
    """Wall time to wait for the missing events of a tick. Not used in lock-step."""
    model_keys: str = ""
    """Path of a public key, or of a folder with *.pub: who may sign models. Empty: nobody, and
    only models that ship with this release are served."""
    model_store: str = ""
    """Folder or URL of the artefacts that are promoted; URLs need the extra `stores`. Empty: none,
    and only what ships is served."""
    rollout_shadow_decisions: int = 15
    """Decisions that a promoted model makes in shadow, before any of them is applied."""
    rollout_stage_decisions: int = 10
    """Decisions in each stage of its canary."""
    domains: str = ""
    """Path of a file with domains that replace those of the cluster file while it is there. When it
    changes, the process ends in good order, to be started again with the new ones."""
    speed: float = 1.0
    """Seconds of event time per wall second of a free-running simulated cluster."""

    def __post_init__(self) -> None:
        positive: tuple[str, ...] = (
            "session_timeout_seconds", "heartbeat_seconds", "commit_seconds", "in_flight"
        )  # fmt: skip
        positive += ("acknowledgement_seconds", "drain_seconds", "silence_seconds", "speed")
        positive += ("rollout_shadow_decisions", "rollout_stage_decisions")
        for name in positive:
            # `not x > 0` instead of `x <= 0`: it refuses NaN, too.
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: expected more than 0, got {getattr(self, name)}")
        # 0 is valid: then a tick does not wait for what is missing.
        if not self.grace_seconds >= 0:
            raise ValueError(f"grace_seconds: expected 0 or more, got {self.grace_seconds}")
        if self.heartbeat_seconds * 2 > self.session_timeout_seconds:
            raise ValueError("heartbeat_seconds: expected at most half of session_timeout_seconds")
        if self.kafka_security.startswith("SASL") and not self.kafka_user:
            raise ValueError(
                f"kafka_user: expected a name with kafka_security={self.kafka_security}"
            )
        if not self.kafka_security.endswith("SSL") and not self.kafka_allow_plaintext:
            self._check_local()

    def _check_local(self) -> None:
        for server in self.kafka_bootstrap.split(","):
            host = server.strip().rpartition(":")[0].strip("[]")
            if not is_loopback(host):
                raise ValueError(
                    f"kafka_security: expected SASL_SSL for {host}, got {self.kafka_security}; "
                    "set kafka_allow_plaintext to send unencrypted to other machines"
                )

    def __repr__(self) -> str:
        shown = (
            f"{name}={'***' if name in SECRETS and getattr(self, name) else getattr(self, name)!r}"
            for name in self.__struct_fields__
        )
        return f"KitSettings({', '.join(shown)})"

    @property
    def tick_grace_seconds(self) -> float | None:
        """Grace period of a tick; None in lock-step, where a tick waits until it is complete."""
        return None if self.lock_step else self.grace_seconds


def load(
    service: str, own: type[T], environment: Mapping[str, str], file: str | None = None
) -> tuple[KitSettings, T]:
    """The kit's settings and the service's own; raises BadSettings."""
    name = file or environment.get(FILE)
    sections = _read(Path(name)) if name else {}
    allowed = {KIT, service, *_services()}
    if unknown := sorted(sections.keys() - allowed):
        raise BadSettings(f"{name}: unknown section `{unknown[0]}`")
    kit, mine = _from_environment(service, environment, allowed - {KIT})
    return (
        _convert(KIT, {**sections.get(KIT, {}), **kit}, KitSettings),
        _convert(service, {**sections.get(service, {}), **mine}, own),
    )


def _convert(section: str, values: dict[str, Any], kind: type[T]) -> T:
    try:
        # Not strict: variables are always text.
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadSettings(f"{section}: {_explained(str(error), section, kind)}") from None


def _explained(error: str, section: str, kind: type[msgspec.Struct]) -> str:
    """Add the variable that sets the field, and the allowed values of an enumeration."""
    what, _, path = error.partition(" - at `$.")
    field = path.removesuffix("`")
    if not field:
        fields = f", expected one of {', '.join(kind.__struct_fields__)}"
        return error + fields * ("unknown field" in what)
    owner = "" if section == KIT else f"{section.upper()}_"
    choices = get_args(get_type_hints(kind).get(field))
    allowed = f", expected {' or '.join(choices)}" if "enum" in what else ""
    return f"{field} ({_PREFIX}{owner}{field.upper()}): {what}{allowed}"


def _from_environment(
    service: str, environment: Mapping[str, str], services: set[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Values for the kit and for the service; variables of other services are ignored."""
    kit: dict[str, str] = {}
    mine: dict[str, str] = {}
    for variable, value in with_secrets(environment).items():
        if not variable.startswith(_PREFIX) or variable in _TOOLS:
            continue
        field = variable.removeprefix(_PREFIX).lower()
        owner = next((one for one in services if field.startswith(f"{one}_")), None)
        if owner == service:
            mine[field.removeprefix(f"{service}_")] = value
        elif owner is None:
            # Whatever is left goes to the kit, which refuses unknown fields: a misspelled
            # variable must not be ignored.
            kit[field] = value
    return kit, mine


def with_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables, with the contents of the files that HIRL_X_FILE names as HIRL_X."""
    found = dict(environment)
    for variable in (f"{_PREFIX}{name.upper()}" for name in SECRETS):
        file = found.pop(f"{variable}_FILE", "")
        if not file:
            continue
        if found.get(variable):
            raise BadSettings(f"{variable}: expected the variable or {variable}_FILE, got both")
        try:
            # Editors and `echo` end a file with a newline, which is not part of the secret.
            found[variable] = Path(file).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise BadSettings(f"{variable}_FILE: {file} cannot be read ({why})") from None
        if not found[variable]:
            raise BadSettings(f"{variable}_FILE: {file} is empty")
    return found


def is_loopback(host: str) -> bool:
    """Whether a broker's host is this machine; a name that only DNS knows is not."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
        found = tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, yaml.YAMLError) as error:
        raise BadSettings(f"{path}: {' '.join(str(error).split())}") from None
    try:
        return msgspec.convert(found or {}, dict[str, dict[str, Any]])
    except msgspec.ValidationError as error:
        raise BadSettings(f"{path}: expected sections with fields: {error}") from None


def _services() -> set[str]:
    """Names of sections: every service that reads or writes a topic."""
    named = {name for topic in TOPICS for name in (*topic.producers, *topic.consumers)}
    return named - {ANY} | {"simcluster"}

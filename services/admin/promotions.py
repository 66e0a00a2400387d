"""Orders about models: which are in force, what services made of them, and how to return."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec.structs import asdict
from msgspec.structs import replace as structs_replace

from models.inputs.errors import InputError
from models.registry.gate import Limits
from models.registry.load import Artefact
from models.registry.manifest import Kind
from schemas.fields import LONGEST_TEXT
from schemas.model_judged import ModelJudged
from schemas.model_promoted import ModelPromoted, RolloutRules
from services._kit.clock import rfc3339
from services.admin.orders import Author, read_topic
from services.admin.reader import TopicReader

SOURCE: Final = "registry"
KEYS: Final[Mapping[Kind, str]] = {
    "forecaster": "forecaster",
    "commander-policy": "commander",
    "soldier-policy": "soldier",
}
"""Key of the promotions by kind of artefact."""
SHIPPED: Final = "shipped"
"""Name of what services serve without any promotion."""
HoldAt = Literal["shadow", "canary", "serving"]


class History(NamedTuple):
    """What was ordered and what became of it, oldest first."""

    ordered: tuple[ModelPromoted, ...]
    judged: tuple[ModelJudged, ...]

    def newest(self, model: str) -> ModelPromoted | None:
        """The order in force."""
        found = [one for one in self.ordered if one.model == model]
        return found[-1] if found else None

    def serving(self, model: str) -> list[tuple[str, str]]:
        """Names and versions that served everything, the last one last."""
        return [
            (one.version, one.sha256)
            for one in self.judged
            if one.model == model and one.phase == "serving"
        ]

    def incumbent(self, model: str) -> tuple[str, str]:
        """Name and version of what decides by the newest step, or what ships."""
        steps = [one for one in self.judged if one.model == model]
        name = steps[-1].incumbent if steps else ""
        if steps and steps[-1].phase == "serving":
            return steps[-1].version, steps[-1].sha256
        known = [(one.version, one.sha256) for one in self.ordered if one.model == model]
        known += [(one.version, one.sha256) for one in steps]
        return next((one for one in reversed(known) if name and one[0] == name), (SHIPPED, ""))

    def has_failed(self, model: str, sha256: str) -> bool:
        """Whether a version that served was taken back since."""
        steps = [one.phase for one in self.judged if (one.model, one.sha256) == (model, sha256)]
        return [one for one in steps if one in ("serving", "rolled-back")][-1:] == ["rolled-back"]

    def taken_back(self, order: ModelPromoted) -> bool:
        """Whether services refused what was ordered, or took it back."""
        steps = [one for one in self.judged if one.sha256 == order.sha256 and order.sha256]
        return bool(steps) and steps[-1].phase in ("rolled-back", "refused")


def read_history(reader: TopicReader) -> History:
    """All orders and steps that the broker still has."""
    ordered = [r.event for r in read_topic(reader, ModelPromoted)]
    judged = [r.event for r in read_topic(reader, ModelJudged)]
    return History(
        tuple(one for one in ordered if isinstance(one, ModelPromoted)),
        tuple(one for one in judged if isinstance(one, ModelJudged)),
    )


def promotion(
    history: History,
    artefact: Artefact,
    store: str,
    author: Author,
    reason: str,
    now: float,
    hold_at: HoldAt,
) -> ModelPromoted:
    """The order to serve an artefact."""
    model = KEYS[artefact.manifest.kind]
    return ModelPromoted(
        model=model,
        rules=rules_of(history, model),
        version=artefact.name,
        uri=store,
        sha256=artefact.version,
        hold_at=hold_at,
        **_signed(author, reason, now),
    )


def rollback(
    history: History, model: str, to: str, author: Author, reason: str, now: float
) -> ModelPromoted:
    """The order to return to a version that served before, or to what ships."""
    present = history.newest(model)
    uri = "" if present is None else present.uri
    name, sha256 = _target(history, model, to)
    return ModelPromoted(
        model=model,
        version=name,
        status="rolled-back",
        uri=uri if sha256 else "",
        sha256=sha256,
        locked=present is not None and present.locked,
        rules=rules_of(history, model),
        **_signed(author, reason, now),
    )


def with_lock(
    history: History, model: str, author: Author, reason: str, now: float, *, locked: bool
) -> ModelPromoted:
    """The order in force, locked or unlocked."""
    base = _in_force(history, model)
    return ModelPromoted(**base, locked=locked, unlock=not locked, **_signed(author, reason, now))


def with_rules(
    history: History, model: str, settings: Sequence[str], author: Author, reason: str, now: float
) -> ModelPromoted:
    """The order in force, with other rules; what is not changed stays."""
    present, base = history.newest(model), _in_force(history, model)
    base["rules"] = changed(base["rules"], settings)
    locked = present is not None and present.locked
    return ModelPromoted(**base, locked=locked, **_signed(author, reason, now))


def _in_force(history: History, model: str) -> dict[str, Any]:
    """What the next record has to repeat, so that it changes nothing else."""
    present = history.newest(model)
    base: dict[str, Any] = {"model": model, "version": SHIPPED, "rules": rules_of(history, model)}
    if present is not None and not history.taken_back(present):
        base |= {
            "version": present.version,
            "uri": present.uri,
            "sha256": present.sha256,
            "hold_at": present.hold_at,
            # A service may read the newest record only: a return that it missed is still obeyed.
            "status": present.status,
        }
    elif present is not None:
        # Ending a lock must not begin again what was taken back.
        name, sha256 = history.incumbent(model)
        base |= {"version": name, "uri": present.uri if sha256 else "", "sha256": sha256}
    return base


def changed(rules: RolloutRules, settings: Sequence[str]) -> RolloutRules:
    """Rules with each `NAME=VALUE` changed; without a value it is as before any record."""
    plain = msgspec.to_builtins(rules)
    known = flat(rules)
    for one in settings:
        name, equals, value = one.partition("=")
        if not equals or name not in known:
            raise InputError(f"{one}: expected NAME=VALUE, with a name of {', '.join(known)}")
        part, _, last = name.rpartition(".")
        (plain[part] if part else plain)[last] = value or None
    try:
        return msgspec.convert(plain, RolloutRules, strict=False)
    except msgspec.ValidationError as error:
        raise InputError(f"rules: {error}") from None


def flat(rules: RolloutRules) -> dict[str, float | None]:
    """Every rule by its name, such as `gate.drift`; None where nothing was changed."""
    found: dict[str, float | None] = {}
    for name, value in msgspec.to_builtins(rules).items():
        if isinstance(value, dict):
            found |= {f"{name}.{inner}": one for inner, one in value.items()}
        else:
            found[name] = value
    return found


def with_changes(ordered: Sequence[ModelPromoted]) -> Iterator[tuple[ModelPromoted, str]]:
    """Each order with the rules that it changed, in words."""
    before: dict[str, dict[str, float | None]] = {}
    for order in ordered:
        now, was = flat(order.rules), before.get(order.model, flat(RolloutRules()))
        words = [
            f"{name}={'as before' if now[name] is None else f'{now[name]:g}'}"
            for name in now
            if now[name] != was[name]
        ]
        before[order.model] = now
        yield order, f"; {', '.join(words)}" if words else ""


def limits_of(history: History, model: str) -> Limits:
    """The thresholds of the gate: those of the release, and what the registry changed."""
    given = asdict(rules_of(history, model).gate)
    return structs_replace(Limits(), **{n: one for n, one in given.items() if one is not None})


def rules_of(history: History, model: str) -> RolloutRules:
    """What the registry changed about the rules of the services' settings."""
    present = history.newest(model)
    return RolloutRules() if present is None else present.rules


def check_unlocked(history: History, model: str) -> None:
    """Refuse to promote while an operator has locked the model."""
    present = history.newest(model)
    if present is not None and present.locked:
        raise InputError(
            f"{model} is locked by {present.issued_by or 'nobody'} ({present.reason}): "
            f"hirl models unlock {model}"
        )


def _target(history: History, model: str, to: str) -> tuple[str, str]:
    served: Sequence[tuple[str, str]] = history.serving(model)
    if to == SHIPPED:
        return SHIPPED, ""
    if to:
        found = [one for one in served if one[1].startswith(to) or one[0] == to]
        if not found:
            known = ", ".join(f"{name} ({sha[:12]})" for name, sha in served) or "none"
            raise InputError(f"{to}: served nothing of late; these did: {known}, {SHIPPED}")
        return found[-1]
    present, incumbent = history.newest(model), history.incumbent(model)
    if present is not None and present.sha256 not in ("", incumbent[1]):
        # On its way or taken back: what decides beside it is sound.
        return incumbent
    # What the present one replaced, but for what was itself taken back.
    earlier = [one for one in served if one != incumbent and not history.has_failed(model, one[1])]
    return earlier[-1] if earlier else (SHIPPED, "")


def _signed(author: Author, reason: str, now: float) -> dict[str, Any]:
    if not reason.strip():
        raise InputError("--reason: expected why, in plain words; it is kept with the order")
    if len(reason) > LONGEST_TEXT:
        raise InputError(f"--reason: expected at most {LONGEST_TEXT:,} characters")
    return {
        "promoted_at": rfc3339(now),
        "reason": reason,
        "issued_by": author.name,
        "authenticated": author.authenticated,
    }


def known_model(model: str) -> str:
    """Check the name of a model."""
    if model not in KEYS.values():
        raise InputError(f"{model}: expected one of {', '.join(KEYS.values())}")
    return model


def stamp(time: str) -> str:
    """A time in a column."""
    return datetime.fromisoformat(time).astimezone(UTC).strftime("%m-%d %H:%M:%S")

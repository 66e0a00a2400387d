"""A model that services are to run from now on."""

from typing import Annotated, Literal

from schemas.fields import Event, Name, Time, about


class ModelPromoted(Event, frozen=True, kw_only=True):
    """The newest of a model counts; services swap to it between two ticks."""

    model: Annotated[Name, about("such as forecaster, commander, soldier")]
    version: str
    status: Literal["promoted", "rolled-back"] = "promoted"
    uri: Annotated[str, about("where the artefact is; empty: the built-in heuristic")] = ""
    sha256: str = ""
    promoted_at: Time
    reason: str = ""

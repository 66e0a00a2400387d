"""A model that services are to run from now on."""

from typing import Annotated, Literal

from schemas.fields import Event, Name, Time, about


class ModelPromoted(Event, frozen=True, kw_only=True):
    """The newest of a model counts; services swap to it between two ticks."""

    model: Annotated[Name, about("such as forecaster, commander, soldier")]
    version: Annotated[str, about("to run")]
    status: Annotated[
        Literal["promoted", "rolled-back"], about("rolled-back: to the version named here")
    ] = "promoted"
    uri: Annotated[str, about("where the artefact is; empty: the built-in heuristic")] = ""
    sha256: Annotated[str, about("of the artefact; services refuse any other")] = ""
    promoted_at: Annotated[Time, about("when the registry decided it")]
    reason: Annotated[str, about("why, in words")] = ""

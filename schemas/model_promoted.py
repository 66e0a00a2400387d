"""A model version that services switch to."""

from typing import Annotated, Literal

from schemas.fields import Event, Name, Time, about


class ModelPromoted(Event, frozen=True, kw_only=True):
    """The version of a model to serve. The newest record wins; services swap between two ticks."""

    model: Annotated[Name, about("Name of the model, for example `forecaster` or `soldier`.")]
    version: Annotated[str, about("Version to serve.")]
    status: Annotated[
        Literal["promoted", "rolled-back"],
        about("`rolled-back` means that `version` is the one services return to."),
    ] = "promoted"
    uri: Annotated[str, about("Location of the artefact; empty means the built-in heuristic.")] = ""
    sha256: Annotated[str, about("SHA-256 of the artefact; services refuse any other.")] = ""
    promoted_at: Annotated[Time, about("Time of the registry's decision, UTC.")]
    reason: Annotated[str, about("Why the model was promoted or rolled back.")] = ""

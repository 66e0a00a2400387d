"""What a service made of a promoted model."""

from typing import Annotated, Literal

from schemas.fields import Name, Share, Tick, TickEvent, about


class ModelJudged(TickEvent, frozen=True, kw_only=True):
    """A step of a rollout in one service, with its evidence. Append-only: the history."""

    model: Annotated[Name, about("Name of the model: `forecaster`, `commander` or `soldier`.")]
    scope: Annotated[Name, about("Domain that the service decides for, or `cluster`.")]
    phase: Annotated[
        Literal["loading", "shadow", "canary", "serving", "refused", "rolled-back", "heuristic"],
        about(
            "What happens to `version` from now on. `refused`: it is not served. `rolled-back`: "
            "`incumbent` decides again. `heuristic`: it is promoted and cannot be served for now."
        ),
    ]
    version: Annotated[str, about("Version that this is about, as decisions carry it.")]
    sha256: Annotated[str, about("Version of its artefact, the digest of the manifest.")] = ""
    incumbent: Annotated[
        str, about("Version that decides where the other does not; empty: what ships.")
    ] = ""
    share: Annotated[Share, about("Share that `version` decides for.")] = 0.0
    reason: Annotated[str, about("Why, in plain words.")] = ""
    evidence: Annotated[
        dict[str, float], about("Figures behind the decision, per decision of the stage.")
    ] = {}
    order: Annotated[
        str, about("Promotion that this follows: what one scope takes back, the others do, too.")
    ] = ""
    locked_until_tick: Annotated[
        Tick | None, about("Tick until which nothing new is begun; null: there is no lock.")
    ] = None

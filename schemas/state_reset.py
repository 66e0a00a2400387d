"""An operator's order to drop a saved state of a service, which then starts over."""

from typing import Annotated

from schemas.fields import Event, Name, Time, about


class StateReset(Event, frozen=True, kw_only=True):
    """An order to drop one saved state.

    The service carries out each order once, and publishes what it dropped on `hirl.rejected.v1`
    with the error `reset`.
    """

    state: Annotated[
        Name, about("Service and key, for example `soldier/payments` or `commander/cluster`.")
    ]
    id: Annotated[str, about("Unique id of the order.")]
    reason: Annotated[str, about("Why the order was issued, in plain words.")]
    issued_by: Annotated[str, about("Principal that issued the order.")]
    issued_at: Annotated[Time, about("Time of the order, UTC.")]

    @property
    def service(self) -> str:
        """Service whose state is meant."""
        return self.state.partition("/")[0]

    @property
    def key(self) -> str:
        """Key of the state."""
        return self.state.partition("/")[2]

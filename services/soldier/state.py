"""What a Soldier remembers of its domain."""

from dataclasses import dataclass, field

from models.control.soldiers import SoldiersState
from models.registry.drift import Watched
from models.registry.rollout import Rollout
from schemas.domain_observed import DomainObserved
from schemas.fields import Event
from services._kit.arrays import Budgets
from services._kit.plausible import Timeline
from services._kit.state_codec import Transient
from services.soldier.transition import SoldierSnapshot


@dataclass(frozen=True)
class SoldierState:
    """What a Soldier remembers of its domain."""

    domain: str
    memory: SoldiersState
    """Memory of the models; its axis of apps has the `names`."""
    closed: int = -1
    """The last planned tick."""
    names: tuple[str, ...] = ()
    budgets: Budgets = ()
    waiting: DomainObserved | None = None
    """A frame that waits for its budget. Saved, so that waiting holds no offsets back."""
    since: Transient[float | None] = None
    """When the frame arrived, by `Clock.now`; None after a restart."""
    timeline: Timeline = field(default_factory=Timeline)
    snapshot: SoldierSnapshot | None = None
    rollout: Rollout = field(default_factory=Rollout)
    """Which promoted policy advises, and which one is on its way."""
    watched: Watched = field(default_factory=Watched)
    """The features of the policies that answer."""
    pending: Transient[Event | None] = None
    """What is handled as soon as a model is open. Never saved: nothing is until then."""

    @property
    def newest_tick(self) -> int:
        """The newest believed tick; -1 before the first."""
        return max(self.closed, self.timeline.tick)

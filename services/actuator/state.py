"""What the actuator remembers of a domain."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Self

import numpy as np

from models.cluster.arrays import I32
from models.control.change_history import ChangeHistory
from models.control.contradiction import UNREAD
from schemas.domain_observed import DomainObserved
from schemas.scale_planned import ScalePlanned
from services._kit.arrays import Budgets
from services._kit.plausible import Timeline
from services._kit.state_codec import Transient
from services.actuator.answers import Pending
from services.actuator.ruling import COLUMNS

_MOST_REPLACED: Final = 20
"""Plans that may be delivered again: a crash repeats those of a few seconds."""
MOST_FRAMES: Final = 6
"""Plans may be this far behind: after a minute, what a plan was made from is outdated."""


def nothing_read(apps: int = 0) -> I32:
    """[3, A] before the target was read."""
    return np.full((len(COLUMNS), apps), UNREAD, np.int32)


def no_sizes(apps: int = 0) -> I32:
    """[2, A] before the target was read."""
    return np.zeros((len(COLUMNS) - 1, apps), np.int32)


@dataclass(frozen=True)
class ActuatorState:
    """What the actuator remembers of one domain."""

    domain: str
    history: ChangeHistory
    """Memory of the safety rules; its axis of apps has the `names`."""
    closed: int = -1
    """The last tick whose write was requested."""
    names: tuple[str, ...] = ()
    resting: Mapping[str, int] = field(default_factory=dict)
    """Tick until which apps rest that are not among the names: whoever leaves an app out of a
    frame, or removes and declares it again, must not end its cool-down."""
    last_read: I32 = field(default_factory=nothing_read)
    """[3, A] what the target had of the `names` when it was read last."""
    first: I32 = field(default_factory=no_sizes)
    """[2, A] millicores and MiB per pod when the `names` were read first; 0 before that."""
    left: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """First sizes of apps that are not among the names and were resized: see `resting`."""
    budgets: Budgets = ()
    plan: ScalePlanned | None = None
    """A plan that waits for its frame or its budget. Before the first frame its tick is not
    confirmed: until then it only waits."""
    replaced: tuple[str, ...] = ()
    """Ids of the last plans that were replaced before the first tick closed. Their outcome is
    published: delivered again, they change nothing."""
    saved_frames: tuple[DomainObserved, ...] = ()
    new_frames: Transient[tuple[DomainObserved, ...]] = ()
    """Frames that are not saved yet; delivered again after a restart."""
    since: Transient[float | None] = None
    """When the plan arrived, by `Clock.now`; None after a restart."""
    pending: Pending | None = None
    timeline: Timeline = field(default_factory=Timeline)

    @property
    def frames(self) -> dict[int, DomainObserved]:
        """Frames of open ticks, by tick."""
        return {frame.tick: frame for frame in (*self.saved_frames, *self.new_frames)}

    @property
    def newest_tick(self) -> int:
        """The newest tick of a plan or a frame; -1 before the first."""
        plan = self.plan.tick if self.plan is not None and self.is_confirmed else -1
        return max(self.closed, plan, *self.frames)

    @property
    def is_confirmed(self) -> bool:
        """Whether a frame confirmed the tick of the waiting plan, or will before it is late."""
        return self.timeline.line is not None or (
            self.plan is not None and self.plan.tick in self.frames
        )

    def with_plan(self, plan: ScalePlanned, now: float) -> Self:
        """Replace the waiting plan with one that arrived."""
        replaced = self.replaced
        # Once a tick has closed, the tick shows which plan is older. Before that, a restart loses
        # what frames have confirmed, so replaced plans are recognised by their ids.
        if self.plan is not None and self.timeline.saved is None:
            replaced = (*replaced, self.plan.decision_id)[-_MOST_REPLACED:]
        return replace(self.with_frames(self.frames), plan=plan, since=now, replaced=replaced)

    def with_frames(self, frames: Mapping[int, DomainObserved]) -> Self:
        """Replace the frames; from now on all of them are saved."""
        return replace(self, saved_frames=tuple(frames.values()), new_frames=())


def with_frame(frame: DomainObserved, state: ActuatorState) -> dict[int, DomainObserved]:
    """Add a frame; of too many, keep the newest and the one that the plan waits for."""
    frames = {**state.frames, frame.tick: frame}
    if len(frames) <= MOST_FRAMES:
        return frames
    needed = {max(frames), -1 if state.plan is None else state.plan.tick}
    return {tick: kept for tick, kept in frames.items() if tick in needed}

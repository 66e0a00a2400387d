"""The states of the keys that are here, and what a restart would find of each."""

import logging
from collections import defaultdict
from collections.abc import ItemsView, Iterable, Sequence
from typing import Final, Generic

import msgspec

from services._kit.consume import Delivery
from services._kit.errors import Refused
from services._kit.handler import Handler, S

log = logging.getLogger(__name__)

_NOT_UNDERSTOOD: Final = (
    Refused, LookupError, AttributeError, TypeError, ValueError, msgspec.DecodeError,
)  # fmt: skip
"""What `load` raises over bytes of another form."""


class Keep(Generic[S]):
    """States by key, with the bytes that were saved of them last."""

    def __init__(self, handler: Handler[S]) -> None:
        self._handler = handler
        self.clear()

    def clear(self) -> None:
        """Forget all of them."""
        self._states: dict[str, S] = {}
        self._saved: dict[str, bytes] = {}
        self._partitions: dict[str, int] = {}
        self._unsettled: defaultdict[str, list[Delivery]] = defaultdict(list)

    def __contains__(self, key: str) -> bool:
        return key in self._states

    def get(self, key: str) -> S | None:
        """The state of a key, if it has begun."""
        return self._states.get(key)

    def items(self) -> ItemsView[str, S]:
        """All that have begun."""
        return self._states.items()

    def of(self, key: str) -> S:
        """The state of a key; it begins if it has not."""
        if key not in self._states:
            self._states[key] = self._handler.start(key)
        return self._states[key]

    # What is saved.

    def restore(self, key: str, data: bytes | None, partition: int | None) -> None:
        """A record of the state topic; the last one of a key counts."""
        if data is None:
            self._saved.pop(key, None)
        else:
            self._saved[key] = data
        if partition is not None:
            self._partitions[key] = partition

    @property
    def saved(self) -> Sequence[str]:
        """Keys of which something is saved."""
        return tuple(self._saved)

    def load(self, key: str) -> None:
        """Take up what was saved; a form that is not understood is as good as nothing."""
        try:
            self._states[key] = self._handler.load(key, self._saved[key])
        except _NOT_UNDERSTOOD as error:
            surprise = not isinstance(error, Refused)
            log.warning(
                "%s starts `%s` anew, as it does not understand what it saved: %r",
                self._handler.name, key, error, exc_info=surprise,
            )  # fmt: skip

    def put(self, key: str, state: S, data: bytes | None) -> None:
        """A newer state, and its bytes if it was saved."""
        self._states[key] = state
        if data is not None:
            self._saved[key] = data

    def last_saved(self, key: str) -> bytes | None:
        """What a restart would find."""
        return self._saved.get(key)

    def resume(self, key: str) -> None:
        """Let go of a state, and go on from what was saved last or, without it, from the start."""
        self._states.pop(key, None)
        if key in self._saved:
            self.load(key)
        self.of(key)

    def forget_saved(self, key: str) -> None:
        """A tombstone was written."""
        self._saved.pop(key, None)

    # Where its inputs come from.

    def partition(self, key: str) -> int | None:
        """Of the inputs of a key; None where it does not matter or nobody knows."""
        return self._partitions.get(key)

    def locate(self, key: str, partition: int) -> None:
        """Inputs of a key come from there."""
        self._partitions[key] = partition

    def hold(self, key: str, deliveries: Iterable[Delivery]) -> None:
        """Inputs that are in a state and in nothing that was saved."""
        # To be acknowledged they need no value, and frames are large.
        self._unsettled[key].extend(one._replace(value=None) for one in deliveries)

    def let_go(self, key: str) -> list[Delivery]:
        """Hand them out: they are settled, or lost."""
        return self._unsettled.pop(key, [])

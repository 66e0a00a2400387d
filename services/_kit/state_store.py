"""The states of the keys in this process, and what a restart would find of each."""

import logging
from collections import defaultdict
from collections.abc import ItemsView, Iterable, Sequence
from typing import Final, Generic

import msgspec

from services._kit.errors import Refused
from services._kit.handler import Handler, S
from services._kit.records import Delivery

log = logging.getLogger(__name__)

_WRONG_FORM: Final = (
    Refused, LookupError, AttributeError, TypeError, ValueError, msgspec.DecodeError,
)  # fmt: skip
"""What `load` raises on bytes of another form."""


class StateStore(Generic[S]):
    """States by key, with their last saved bytes and the inputs that are not in these bytes."""

    def __init__(self, handler: Handler[S]) -> None:
        self._handler = handler
        self.clear()

    def clear(self) -> None:
        """Drop everything: the partitions may go elsewhere."""
        self._states: dict[str, S] = {}
        self._saved: dict[str, bytes] = {}
        self._partitions: dict[str, int] = {}
        self._unsettled: defaultdict[str, list[Delivery]] = defaultdict(list)

    def __contains__(self, key: str) -> bool:
        return key in self._states

    def get(self, key: str) -> S | None:
        """State of a key, if it has one here."""
        return self._states.get(key)

    def items(self) -> ItemsView[str, S]:
        """States by key."""
        return self._states.items()

    def get_or_start(self, key: str) -> S:
        """State of a key; a new key starts."""
        if key not in self._states:
            self._states[key] = self._handler.start(key)
        return self._states[key]

    def put(self, key: str, state: S, data: bytes | None) -> None:
        """Replace a state; `data` are its bytes if it was saved."""
        self._states[key] = state
        if data is not None:
            self._saved[key] = data

    # Saved bytes.

    def restore(self, key: str, data: bytes | None, partition: int | None) -> None:
        """Take in a record of the state topic; the last one of a key wins."""
        if data is None:
            self._saved.pop(key, None)
        else:
            self._saved[key] = data
        if partition is not None:
            self._partitions[key] = partition

    @property
    def saved_keys(self) -> Sequence[str]:
        """Keys that have saved bytes."""
        return tuple(self._saved)

    def last_saved(self, key: str) -> bytes | None:
        """What a restart would find."""
        return self._saved.get(key)

    def load(self, key: str) -> None:
        """Load the saved bytes; if they have a wrong form, the key starts anew when needed."""
        try:
            self._states[key] = self._handler.load(key, self._saved[key])
        except _WRONG_FORM as error:
            unexpected = not isinstance(error, Refused)
            log.warning(
                "%s starts `%s` anew: the saved state has a wrong form: %r",
                self._handler.name, key, error, exc_info=unexpected,
            )  # fmt: skip
            lost = self._handler.lost(key)
            if lost is not None:
                self._states[key] = lost

    def resume(self, key: str) -> None:
        """Go back to the last saved state or, without one, to the start."""
        self._states.pop(key, None)
        if key in self._saved:
            self.load(key)
        self.get_or_start(key)

    # Inputs.

    def partition(self, key: str) -> int | None:
        """Partition of a key's inputs; None if it does not matter or is not known yet."""
        return self._partitions.get(key)

    def set_partition(self, key: str, partition: int) -> None:
        """Note which partition a key's inputs come from."""
        self._partitions[key] = partition

    def hold(self, key: str, deliveries: Iterable[Delivery]) -> None:
        """Keep inputs unacknowledged: they are in the state but in nothing that was saved."""
        # Acknowledging needs no value, and frames are large.
        self._unsettled[key].extend(one._replace(value=None) for one in deliveries)

    def take_unsettled(self, key: str) -> list[Delivery]:
        """Hand out the held inputs, because they are settled or lost."""
        return self._unsettled.pop(key, [])

"""The states of the keys in this process, and what a restart would find of each."""

import logging
from collections import defaultdict
from collections.abc import ItemsView, Iterable, Mapping, Sequence
from typing import Final, Generic

import msgspec

from services._kit.errors import Refused
from services._kit.handler import Handler, S
from services._kit.records import Delivery
from services._kit.state_records import FoundStates, StateRecord, part_key, state_records

log = logging.getLogger(__name__)

_WRONG_FORM: Final = (
    Refused, LookupError, AttributeError, TypeError, ValueError, RecursionError,
    msgspec.DecodeError,
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
        self._torn: dict[str, Refused] = {}
        """Why the saved bytes of a key are of no use."""
        self._found = FoundStates()
        self._parts: dict[str, frozenset[int]] = {}
        """Numbers of the parts that the state topic has, by key."""
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
            self.set_saved(key, data)

    # Saved bytes.

    def restore(self, key: str, record: StateRecord | None, partition: int | None) -> None:
        """Take in a record of the state topic; the last one of a key counts."""
        state_key = self._found.add(key, record)
        if state_key is not None and partition is not None:
            self._partitions[state_key] = partition

    def join(self) -> None:
        """Make saved bytes of what was restored."""
        self._parts = self._found.parts()
        for key in self._found:
            try:
                self._saved[key] = self._found.join(key)
            except Refused as error:
                self._torn[key] = error
        self._found = FoundStates()

    def records(self, key: str, data: bytes | None) -> dict[str, StateRecord | None]:
        """Records that make these bytes the saved ones, or leave none; raises TooLarge."""
        written = {} if data is None else state_records(key, data)
        numbers = sorted({1, *self._parts.get(key, ())})
        obsolete = [name for number in numbers if (name := part_key(key, number)) not in written]
        return {**written, **dict.fromkeys(obsolete)}

    def committed(self, key: str, records: Mapping[str, StateRecord | None]) -> None:
        """Note which parts the topic has now."""
        count = sum(record is not None for record in records.values())
        self._parts[key] = frozenset(range(1, count + 1))

    def set_saved(self, key: str, data: bytes | None) -> None:
        """Note what a restart would find; None: nothing."""
        self._torn.pop(key, None)
        if data is None:
            self._saved.pop(key, None)
        else:
            self._saved[key] = data

    @property
    def saved_keys(self) -> Sequence[str]:
        """Keys of which something is saved."""
        return (*self._saved, *self._torn)

    def last_saved(self, key: str) -> bytes | None:
        """What a restart would find."""
        return self._saved.get(key)

    def load(self, key: str) -> None:
        """Load the saved bytes; if they have a wrong form, the key starts over when needed."""
        try:
            if key in self._torn:
                raise self._torn[key]
            self._states[key] = self._handler.load(key, self._saved[key])
        except _WRONG_FORM as error:
            unexpected = not isinstance(error, Refused)
            log.warning(
                "%s starts `%s` over: the saved state has a wrong form: %r",
                self._handler.name, key, error, exc_info=unexpected,
            )  # fmt: skip
            lost = self._handler.lost(key)
            if lost is not None:
                self._states[key] = lost

    def resume(self, key: str) -> None:
        """Go back to the last saved state or, without one, to the start."""
        self._states.pop(key, None)
        if key in self.saved_keys:
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

"""Saved states as records of a state topic: one record, or numbered parts of a large state.

The first part has the key of the state, the others have keys of their own, because compaction
keeps one record of a key. A save writes all its parts in one transaction and removes those of an
earlier, larger one. Each part names its save by a digest of the content. So parts of two saves are
never joined, whatever a reader finds: a log that is being compacted, or half of a save.
"""

import re
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from services._kit.errors import Refused

LARGEST_RECORD_BYTES: Final = 1_000_000
"""Limit of a record as sent; just below a broker's default limit."""
MOST_PARTS: Final = 16
"""Bounds what a step writes in its transaction, and what a restart reads."""
DEFLATED_FROM_BYTES: Final = 64 * 1024
"""States are columns of numbers that change little: above this size, deflating pays."""
LARGEST_STATE_BYTES: Final = 128_000_000
"""Limit of a state in memory. What was forged to inflate without end is refused, not loaded."""
_DEFLATED: Final = ("content-encoding", b"deflate")
_PART: Final = "part"
"""Header of a part: its number, how many there are, and the digest of them all."""
_PART_KEY: Final = re.compile(r"!part/([1-9][0-9]{0,3})/(.+)", re.DOTALL)
_OTHER: Final = "!"
"""Keys of states begin with a letter or digit. Keys that begin like this are of parts, failure
counts, resets that were carried out, or of something that only a newer release knows."""


class StateRecord(NamedTuple):
    """Value and headers of a record of a state topic."""

    value: bytes
    headers: Sequence[tuple[str, bytes | None]] = ()


class TooLarge(ValueError):  # noqa: N818  it is named for what is wrong
    """A state that does not fit into the most parts, or could not be loaded again."""

    def __init__(self, key: str, size: int, most: int, form: str) -> None:
        super().__init__(
            f"state of `{key}` has {size:,} bytes{form}, more than the {most:,} that can be "
            "saved: split the domain"
        )


def state_records(key: str, data: bytes) -> dict[str, StateRecord]:
    """The records of a saved state by their keys, deflated where that pays. Raises TooLarge."""
    if len(data) < DEFLATED_FROM_BYTES:
        return {key: StateRecord(data)}
    if len(data) > LARGEST_STATE_BYTES:
        raise TooLarge(key, len(data), LARGEST_STATE_BYTES, "")
    # The fastest level: a state is saved in every tick.
    sent = zlib.compress(data, level=1)
    if len(sent) <= LARGEST_RECORD_BYTES:
        return {key: StateRecord(sent, (_DEFLATED,))}
    count = -(-len(sent) // LARGEST_RECORD_BYTES)
    if count > MOST_PARTS:
        raise TooLarge(key, len(sent), MOST_PARTS * LARGEST_RECORD_BYTES, " deflated")
    size, digest = -(-len(sent) // count), _digest(sent)
    return {
        part_key(key, number): StateRecord(
            sent[(number - 1) * size : number * size], (_part_header(number, count, digest),)
        )
        for number in range(1, count + 1)
    }


def part_key(key: str, number: int) -> str:
    """Key of the record of a part."""
    return key if number == 1 else f"!part/{number}/{key}"


def part_of(record_key: str) -> tuple[str, int] | None:
    """Key of a state and number of a part, by the key of a record; None for any other record."""
    part = _PART_KEY.fullmatch(record_key)
    if part is None:
        return None if record_key.startswith(_OTHER) else (record_key, 1)
    return part[2], int(part[1])


class FoundStates:
    """What a reader of a state topic finds: takes in all records in order, then joins the parts."""

    def __init__(self) -> None:
        self._records: defaultdict[str, dict[int, StateRecord]] = defaultdict(dict)

    def add(self, record_key: str, record: StateRecord | None) -> str | None:
        """Take in a record, of which the last one of a key counts; None is a tombstone.

        Returns the key of the state that it belongs to; None if it belongs to none.
        """
        part = part_of(record_key)
        if part is None:
            return None
        key, number = part
        if record is None:
            self._records[key].pop(number, None)
        else:
            # No save has so many parts: forged. Its number is enough to remove it.
            kept = record if number <= MOST_PARTS else StateRecord(b"")
            self._records[key][number] = kept
        return key

    def __iter__(self) -> Iterator[str]:
        """Keys of the saved states."""
        return (key for key, records in self._records.items() if 1 in records)

    def parts(self) -> dict[str, frozenset[int]]:
        """Numbers of all parts that are in the topic by key, be they of use or not."""
        return {key: frozenset(records) for key, records in self._records.items() if records}

    def join(self, key: str) -> bytes:
        """The bytes of a saved state; raises Refused unless all of them are there."""
        records = self._records[key]
        header = dict(records[1].headers).get(_PART)
        try:
            return _whole(records[1]) if header is None else _joined(records, header)
        except (zlib.error, ValueError) as error:
            raise Refused("form", f"the saved state of `{key}` is not whole: {error}") from None


def _whole(record: StateRecord) -> bytes:
    # Clients differ in whether a header is a tuple or a list.
    deflated = _DEFLATED in map(tuple, record.headers)
    return _inflated(record.value) if deflated else record.value


def _joined(records: dict[int, StateRecord], first_header: bytes) -> bytes:
    """All parts of the save that the first part belongs to."""
    _, _, rest = first_header.partition(b"/")
    count, _, digest = rest.partition(b"/")
    if not count.isdigit() or not 0 < int(count) <= MOST_PARTS:
        raise ValueError(f"expected up to {MOST_PARTS} parts, got {count!r:.20}")
    pieces = []
    for number in range(1, int(count) + 1):
        record = records.get(number)
        expected = _part_header(number, int(count), digest)
        if record is None or expected not in map(tuple, record.headers):
            found = "missing" if record is None else "of another save"
            raise ValueError(f"part {number} of {int(count)} is {found}")
        pieces.append(record.value)
    sent = b"".join(pieces)
    if _digest(sent) != digest:
        raise ValueError(f"expected the digest {digest!r:.40}, got {_digest(sent)!r}")
    return _inflated(sent)


def _inflated(sent: bytes) -> bytes:
    stream = zlib.decompressobj()
    data = stream.decompress(sent, LARGEST_STATE_BYTES + 1)
    if len(data) > LARGEST_STATE_BYTES:
        raise ValueError(f"expected at most {LARGEST_STATE_BYTES:,} bytes inflated, got more")
    if not stream.eof:
        raise ValueError("its end is missing")
    return data


def _part_header(number: int, count: int, digest: bytes) -> tuple[str, bytes]:
    return _PART, b"%d/%d/%s" % (number, count, digest)


def _digest(sent: bytes) -> bytes:
    return blake2b(sent, digest_size=16).hexdigest().encode()
